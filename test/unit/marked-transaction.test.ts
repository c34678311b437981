import type { Transaction as MssqlTransaction } from "mssql";
import type { ClientBase } from "pg";
import { describe, expect, expectTypeOf, it } from "vitest";
import { asTransaction, type EnqueueOptions, type SqlExecutor } from "../../src/index.js";
import { requireExecutor, type SqlDriver } from "../../src/sql/driver.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

type Tx = NonNullable<EnqueueOptions["tx"]>;
const method = () => {};

describe("the type of tx", () => {
  it("OBX-003 a driver's own client, transaction or pool does not type-check", () => {
    expectTypeOf<ClientBase>().not.toExtend<Tx>();
    expectTypeOf<MssqlTransaction>().not.toExtend<Tx>();
    expectTypeOf<SqlDriver>().not.toExtend<Tx>();
    expectTypeOf<SqlExecutor>().toExtend<Tx>();
    expectTypeOf<{ tx: undefined }>().not.toExtend<EnqueueOptions>();
  });

  it("OBX-003 each library's own object is refused with its adapter", () => {
    const own: readonly (readonly [object, string])[] = [
      [{ query: method, connect: method }, "fromPg(client)"],
      [{ request: method, begin: method, commit: method, rollback: method }, "fromMssql(transaction)"],
      [{ request: method, connect: method }, "fromMssql(transaction)"],
      [{ prepare: method, exec: method }, "fromSqlite(db)"],
      [{ $queryRawUnsafe: method }, "fromPrisma(tx)"],
      [{ executeQuery: method }, "fromKysely(trx)"],
      [Object.assign(() => {}, { raw: method }), "fromKnex(trx)"],
      [{ getRepository: method, query: method }, "fromTypeOrm(manager)"],
      [{ execute: method, rollback: method }, "fromDrizzle(tx)"],
      [openSqlite({ file: ":memory:" }).driver, "db.driver.transaction"],
    ];
    for (const [tx, instead] of own)
      expect(() => requireExecutor(tx), instead).toThrow(`tx is a library's own object. Give `);
    for (const [tx, instead] of own) expect(() => requireExecutor(tx)).toThrow(instead);
    for (const tx of [null, undefined, 7, "tx", {}])
      expect(() => requireExecutor(tx)).toThrow(/tx must be a transaction/);
  });

  it("OBX-003 asTransaction marks one for a library that has no adapter", async () => {
    const tx = asTransaction({ query: async () => [{ one: 1 }] });
    expect(() => requireExecutor(tx)).not.toThrow();
    expect(await tx.query({ name: "one", text: "select 1" }, {})).toEqual([{ one: 1 }]);
  });
});
