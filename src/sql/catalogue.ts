import { type SqlStatement, statement } from "./driver.js";
import { requireIdentifier } from "./names.js";

export interface CatalogueName {
  /** `"tenants"` by default. */
  readonly table?: string;
  /** The database's own default schema by default. */
  readonly schema?: string;
}

/** The SQL of the catalogue of tenants. All three databases read the same text. */
export const selectTenants = (name: CatalogueName): SqlStatement =>
  statement(
    "tenants",
    `select id, database_url, schema_name, inbox_table, outbox_table from ${quoted(name)}`,
  );

export const createCatalogue = (name: CatalogueName): string => `create table ${quoted(name)} (
  id varchar(255) not null primary key,
  database_url varchar(2000) not null,
  schema_name varchar(40),
  inbox_table varchar(40),
  outbox_table varchar(40)
)`;

/** Quoted as in standard SQL, which all three databases read. */
function quoted({ schema, table = "tenants" }: CatalogueName): string {
  requireIdentifier(table, "table");
  if (schema !== undefined) requireIdentifier(schema, "schema");
  return [schema, table]
    .filter((name) => name !== undefined)
    .map((name) => `"${name.replaceAll('"', '""')}"`)
    .join(".");
}
