import { renderSchema } from "../src/index.js";
import { postgresDialect } from "../src/sql/postgres/index.js";
import { sqliteDialect } from "../src/sql/sqlite/index.js";
import { sqlServerDialect } from "../src/sql/sqlserver/index.js";

export interface RenderedSchema {
  readonly file: string;
  readonly sql: string;
}

const dialects = [postgresDialect, sqliteDialect, sqlServerDialect];

export function renderedSchemas(): readonly RenderedSchema[] {
  return dialects.map((dialect) => ({
    file: `${dialect.name}.sql`,
    sql: `-- ${dialect.name}: the oncebox schema. Made by npm run render:sql; do not edit.\n\n${renderSchema(dialect)}`,
  }));
}
