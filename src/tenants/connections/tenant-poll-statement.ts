import type { Dialect } from "../../sql/dialect.js";
import type { SqlStatement } from "../../sql/driver.js";
import type { QueueNames } from "../../sql/names.js";
import type { Tenant } from "../tenant.js";

/** The statement that polls both queues of a tenant; undefined for a dialect without one. */
export function pollStatement(
  dialect: Dialect,
  { schema, inbox, outbox }: Pick<Tenant, "schema" | "inbox" | "outbox">,
): SqlStatement | undefined {
  const names = (kind: QueueNames["kind"], table: string | undefined) =>
    dialect.names(kind, schema ?? dialect.defaults.schema, table ?? dialect.defaults[kind]);
  return dialect.pollStatement?.(names("inbox", inbox), names("outbox", outbox));
}
