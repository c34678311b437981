import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fromSources, root } from "../support/markdown.js";
import { typeErrors } from "../support/type-check.js";

const folderOf = (kind: "right" | "wrong") => fileURLToPath(new URL(kind, import.meta.url));
const programs = async (kind: "right" | "wrong") =>
  (await readdir(folderOf(kind))).filter((name) => name.endsWith(".mts")).sort();

const wrong = await programs("wrong");

/** What the compiler says of each program in `right` and `wrong`. The words are kept beside the wrong ones: `npx vitest run test/types -u`. */
describe("what the compiler says", () => {
  let folder: string;
  let errors: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(root, "node_modules/.oncebox-types-")); // to find the packages
    for (const kind of ["right", "wrong"] as const)
      for (const name of await programs(kind)) {
        const text = await readFile(join(folderOf(kind), name), "utf8");
        await writeFile(join(folder, `${kind}-${name}`), fromSources(text));
      }
    errors = await typeErrors(folder);
  }, 180_000);
  afterAll(() => rm(folder, { recursive: true, force: true }));

  /** The errors of one file: `line:column message`. */
  const errorsIn = (file: string): string =>
    errors
      .split(/\n(?=\S)/)
      .flatMap((error) => {
        const [, place, text] =
          new RegExp(`/${file}\\((\\d+,\\d+)\\): error TS\\d+: ([^]*)`).exec(error) ?? [];
        return place === undefined ? [] : [`${place.replace(",", ":")} ${text!.trimEnd()}\n`];
      })
      .join("");

  it("ADD-13 ADD-21 right programs compile", async () => {
    expect((await programs("right")).map((name) => errorsIn(`right-${name}`)).join("")).toBe("");
    expect(errors).not.toMatch(/^error/m);
  });

  it.each(wrong)("ADD-13 ADD-21 %s is refused, in these words", async (name) => {
    const said = errorsIn(`wrong-${name}`);
    expect(said).not.toBe("");
    await expect(said).toMatchFileSnapshot(join(folderOf("wrong"), name.replace(/\.mts$/, ".txt")));
  });

  it("ADD-13 no message is long", () => {
    for (const name of wrong) expect(errorsIn(`wrong-${name}`).split("\n").length, name).toBeLessThan(12);
  });
});
