export interface Scan {
  readonly procedure: string;
  readonly table: string;
  readonly index: string;
  readonly operator: string;
}

const operators = "Clustered Index Scan|Index Scan|Table Scan";

/** The scans of the queues' tables in a plan (showplan XML). Table variables are scanned on purpose. */
export function scansIn(procedure: string, plan: string): readonly Scan[] {
  const scan = new RegExp(
    `<RelOp [^>]*PhysicalOp="(${operators})"[^>]*>(?:(?!<RelOp)[\\s\\S])*?<Object ([^>]*)>`,
    "g",
  );
  const attribute = (text: string, name: string) =>
    new RegExp(`\\b${name}="\\[([^"]*)\\]"`).exec(text)?.[1] ?? "";
  return [...plan.matchAll(scan)]
    .map(([, operator, object]) => ({
      procedure,
      operator: operator!,
      table: attribute(object!, "Table"),
      index: attribute(object!, "Index"),
    }))
    .filter(({ table }) => !table.startsWith("@") && table !== "" && !table.startsWith("sys"));
}

/** Reads of operators that have no row to seek, because they count or compare all of a kind. */
export const readsOfAll = ["dead groups", "count dead", "unfinished", "blocked partitions"];

/**
 * Lists and counts have no row to seek, nor has maintenance, which looks for ended leases among the unfinished messages, and for
 * the dead in the index that has no others. Of changes, controls, operations and unhandled topics there are few.
 */
export const mayScan = ({ procedure, table, index }: Scan): boolean =>
  /_(List|Stats|OldestDue|Controls)$/.test(procedure) ||
  readsOfAll.some((read) => procedure.endsWith(` ${read}`)) ||
  /(PartitionChanges|Controls|Unhandled)$|^oncebox_operations$/.test(table) ||
  (/_Reap$/.test(procedure) && /State_PK$|_Dead(Keyed)?$|PartitionQueue_/.test(index)) ||
  (/_ExpireDead$/.test(procedure) && /_Dead$/.test(index));
