import type { ReceivingDatabase } from "./dialect.js";

/** The file of a SQLite database; undefined for one in memory and for other databases. */
export function sqliteFileOf({ id, dialect }: Pick<ReceivingDatabase, "id" | "dialect">): string | undefined {
  const file = id.slice("sqlite:".length);
  return dialect.name !== "sqlite" || file === ":memory:" ? undefined : file;
}
