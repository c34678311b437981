import type { Database, Dialect } from "../../sql/dialect.js";
import type { QueueNames } from "../../sql/names.js";

/**
 * Thousands of tenants with tables of the same names need their statements' texts once, not once each, and a driver
 * then compiles them once too.
 */
export function statementCache(): <Db extends Database>(db: Db) => Db {
  const dialects = new Map<Dialect, Dialect>();
  return (db) => {
    let dialect = dialects.get(db.dialect);
    if (dialect === undefined) {
      dialect = {
        ...db.dialect,
        receiving: remembered(db.dialect.receiving),
        inbox: remembered(db.dialect.inbox),
        outbox: remembered(db.dialect.outbox),
      };
      dialects.set(db.dialect, dialect);
    }
    return { ...db, dialect };
  };
}

function remembered<Options extends readonly unknown[], Made>(
  make: (names: QueueNames, ...options: Options) => Made,
): (names: QueueNames, ...options: Options) => Made {
  const made = new Map<string, Made>();
  return (names, ...options) => {
    const key = JSON.stringify([names.schema, names.table, options]);
    let one = made.get(key);
    if (one === undefined) {
      one = make(names, ...options);
      made.set(key, one);
    }
    return one;
  };
}
