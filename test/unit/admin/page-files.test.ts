import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { pageFiles } from "../../../src/admin/page-files.js";
import { pageModule } from "../../../src/admin/render-page.js";

const folder = fileURLToPath(new URL("../../../src/admin/page/", import.meta.url));
const sources = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) =>
  name.endsWith(".ts"),
);

describe("the files of the admin page", () => {
  it("ADD-02 a bundle has the texts that a clone renders from the sources", async () => {
    const module = `data:text/javascript,${encodeURIComponent(await pageModule())}`;
    const bundled = await import(/* @vite-ignore */ module);
    expect(await bundled.pageFiles()).toEqual(await pageFiles());
  });

  it("ADD-02 nothing that the page shows can become markup or code", async () => {
    const dangerous =
      /innerHTML|outerHTML|insertAdjacentHTML|document\.write|setHTML|DOMParser|createContextualFragment|srcdoc|\beval\b|new Function|javascript:/;
    expect(sources.length).toBeGreaterThan(20);
    const found = sources.filter((name) => dangerous.test(readFileSync(join(folder, name), "utf8")));
    expect(found).toEqual([]);
    expect(dangerous.test((await pageFiles()).js)).toBe(false);
  });

  it("ADD-02 it names no other server, and finds its files beside itself", async () => {
    const addresses = Object.values(await pageFiles())
      .flatMap((text) => text.match(/(?:https?:)?\/\/[\w.-]+/g) ?? [])
      .filter((address) => address !== "http://www.w3.org"); // the name of SVG's namespace
    expect(addresses).toEqual([]);
    const { html } = await pageFiles();
    expect(html).toContain('src="./page.js"');
    expect(html).toContain('href="./page.css"');
  });
});
