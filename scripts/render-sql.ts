/** Writes the schema of each dialect as text, for reading and for a DBA to run. A test compares. */
import { writeFileSync } from "node:fs";
import { renderedSchemas } from "./rendered-schemas.js";

for (const { file, sql } of renderedSchemas())
  writeFileSync(new URL(`../infra/sql/${file}`, import.meta.url), sql);
