import { renderSchema } from "../src/sql/migrate.js";
import { postgresDialect } from "../src/sql/postgres/dialect.js";
import { sqliteDialect } from "../src/sql/sqlite/dialect.js";
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
