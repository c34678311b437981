/** Writes the schema of each dialect to infra/sql, for a DBA to read and run. A test compares the files. */
import { writeFileSync } from "node:fs";
import { renderedSchemas } from "./rendered-schemas.js";

for (const { file, sql } of renderedSchemas()) {
  writeFileSync(new URL(`../infra/sql/${file}`, import.meta.url), sql);
  console.log(`${String(sql.split("\n").length - 1).padStart(5)} lines  ${file}`);
}
