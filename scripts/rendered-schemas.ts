import { renderSchema } from "../src/index.js";
import { postgresDialect } from "../src/sql/postgres/index.js";
import { sqliteDialect } from "../src/sql/sqlite/index.js";
import { sqlcmdSchema } from "./sqlcmd-schema.js";

export interface RenderedSchema {
  readonly file: string;
  readonly sql: string;
}

const plain = [postgresDialect, sqliteDialect];

export function renderedSchemas(): readonly RenderedSchema[] {
  const rendered = plain.map((dialect) => ({
    file: `${dialect.name}.sql`,
    sql: `-- ${dialect.name}: the oncebox schema. Made by npm run render:sql; do not edit.\n\n${renderSchema(dialect)}`,
  }));
  return [...rendered, ...sqlcmdSchema()];
}
