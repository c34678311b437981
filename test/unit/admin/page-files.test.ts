import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { renderedPage } from "../../../scripts/rendered-page.js";
import { pageFiles } from "../../../src/admin/page/page-files.js";

const folder = fileURLToPath(new URL("../../../src/admin/page/", import.meta.url));
const sources = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) =>
  name.endsWith(".ts"),
);

describe("the files of the admin page", () => {
  it("ADD-02 page-files.ts is what npm run render:page makes of the sources", async () => {
    expect(readFileSync(join(folder, "page-files.ts"), "utf8")).toBe(await renderedPage());
  });

  it("ADD-02 nothing that the page shows can become markup or code", () => {
    const dangerous =
      /innerHTML|outerHTML|insertAdjacentHTML|document\.write|setHTML|DOMParser|createContextualFragment|srcdoc|\beval\b|new Function|javascript:/;
    expect(sources.length).toBeGreaterThan(20);
    const found = sources.filter((name) => dangerous.test(readFileSync(join(folder, name), "utf8")));
    expect(found).toEqual([]);
    expect(dangerous.test(pageFiles.js)).toBe(false);
  });

  it("ADD-02 it names no other server, and finds its files beside itself", () => {
    const addresses = Object.values({ ...pageFiles, html: pageFiles.html("_oncebox/") })
      .flatMap((text) => text.match(/(?:https?:)?\/\/[\w.-]+/g) ?? [])
      .filter((address) => address !== "http://www.w3.org"); // the name of SVG's namespace
    expect(addresses).toEqual([]);
    expect(pageFiles.html("_oncebox/")).toContain('src="_oncebox/page.js"');
    expect(pageFiles.html("")).toContain('href="page.css"');
  });
});
