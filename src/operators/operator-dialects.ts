import type { Dialect, OperatorDialect } from "../sql/dialect.js";

/** The statements of operators, loaded at their first use. Packaging replaces this file by one with only the databases of the bundle. */
export const operatorDialects: Readonly<Record<Dialect["name"], () => Promise<OperatorDialect>>> = {
  sqlserver: async () => (await import("../sql/sqlserver/operators.js")).sqlServerOperators,
  postgres: async () => (await import("../sql/postgres/operators.js")).postgresOperators,
  sqlite: async () => (await import("../sql/sqlite/operators.js")).sqliteOperators,
};
