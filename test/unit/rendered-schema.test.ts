import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { renderedSchemas } from "../../scripts/rendered-schemas.js";

describe("infra/sql", () => {
  it.each(renderedSchemas())("IBX-117 OBX-094 $file is the schema that migrate deploys", ({ file, sql }) => {
    expect(readFileSync(new URL(`../../infra/sql/${file}`, import.meta.url), "utf8")).toBe(sql);
  });
});
