import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { readDocument, root } from "../../support/markdown.js";

const idPattern = /\b(?:IBX|OBX|MID|SVC|MSG|FUN|ADD)-\d{2,3}\b/g;

it("docs/requirements.md says what every id means that a test names", () => {
  const listed = [...readDocument("docs/requirements.md").matchAll(/^\| ([A-Z]+-\d+) \| \S/gm)].map(
    ([, id]) => id!,
  );
  const tests = readdirSync(join(root, "test"), { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".ts"),
  );
  const named = new Set(tests.flatMap((name) => readDocument(join("test", name)).match(idPattern) ?? []));
  expect(named.size).toBeGreaterThan(0);
  expect([...named].filter((id) => !listed.includes(id))).toEqual([]);
  expect(listed).toHaveLength(new Set(listed).size);
});
