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

/**
 * Reads of all rows of a kind, which have no row to seek; and the changes of partition queues, which a claim reads from the
 * first on and of which there are few; and the controls, of which there are few too.
 */
export const mayScan = ({ procedure, table }: Scan): boolean =>
  /_(List|Stats|Attempts)$| (dead groups|count dead|next dead|backlog|blocked partitions)$/.test(procedure) ||
  /(PartitionChanges|Controls)$/.test(table) ||
  // the dead messages of a named index, and whether there is any partition queue
  (/_Reap$/.test(procedure) && /(State|PartitionQueue)$/.test(table)) ||
  table === "oncebox_operations";
