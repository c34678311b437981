import type { Database, Dialect } from "../../sql/dialect.js";
import type { QueueNames } from "../../sql/names.js";

/**
 * Thousands of tenants whose tables have the same names use the same statements. They are made once, and a driver
 * compiles them once.
 */
export function statementCache(): <Db extends Database>(db: Db) => Db {
  const dialects = new Map<Dialect, Dialect>();
  return (db) => {
    const dialect = dialects.get(db.dialect) ?? cachedDialect(db.dialect);
    dialects.set(db.dialect, dialect);
    return { ...db, dialect };
  };
}

function cachedDialect(dialect: Dialect): Dialect {
  return {
    ...dialect,
    receiving: cached(dialect.receiving),
    inbox: cached(dialect.inbox),
    outbox: cached(dialect.outbox),
    ...(dialect.pollStatement && { pollStatement: cached(dialect.pollStatement) }),
  };
}

/** Caches by the parameters: names of tables, then the options of their statements. */
function cached<Params extends readonly [QueueNames, ...unknown[]], Made>(
  make: (...params: Params) => Made,
): (...params: Params) => Made {
  const all = new Map<string, Made>();
  return (...params) => {
    const key = JSON.stringify(params);
    const made = all.get(key) ?? make(...params);
    all.set(key, made);
    return made;
  };
}
