import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { fromSources, root } from "./markdown.js";
import { typeErrors } from "./type-check.js";

export interface TypePrograms {
  /** The requirement that the tests' names begin with. */
  readonly id: string;
  /** What every program begins with. */
  readonly head: string;
  readonly right: string;
  /** Each is one mistake, and the compiler's words for it. */
  readonly wrong: Readonly<Record<string, readonly [program: string, error: RegExp]>>;
}

/** Tests, inside of a `describe`, that the compiler takes the right program and refuses each wrong one. */
export function typePrograms({ id, head, right, wrong }: TypePrograms): void {
  let folder = "";
  let errors = "";
  const fileOf = (index: number): string => `wrong-${index}.mts`;
  beforeAll(async () => {
    folder = await mkdtemp(join(root, "node_modules", ".types-")); // where the programs' packages are found
    await writeFile(join(folder, "right.mts"), fromSources(head + right));
    for (const [index, [program]] of Object.values(wrong).entries())
      await writeFile(join(folder, fileOf(index)), fromSources(`${head}${program}\nexport {};\n`));
    errors = await typeErrors(folder);
  }, 120_000);
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it(`${id} programs that are right compile`, () => {
    expect(errors.split("\n").filter((line) => line.includes("right.mts"))).toEqual([]);
  });

  for (const [index, [mistake, [, words]]] of Object.entries(wrong).entries()) {
    it(`${id} the compiler refuses ${mistake}`, () => {
      const found = errors.split(/\n(?=\S)/).filter((text) => text.includes(`/${fileOf(index)}(`));
      expect(found.join("\n")).toMatch(words);
    });
  }
}
