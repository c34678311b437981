import { describe, expect, it } from "vitest";
import { type SqlQueryable, statement } from "../../../src/sql/driver.js";
import type { OutboxContext } from "../outbox/support.js";

/** The user's own statements, in the same transactions as messages: parameters are `:name` on every database. */
export function ownStatementTests({ database, box }: OutboxContext): void {
  describe("the user's own statements", () => {
    const withOrders = async (): Promise<string> => {
      const orders = (await box()).names.object("Orders");
      await database().raw(`create table ${orders} (id int not null, customer varchar(100))`);
      return orders;
    };
    const insert = (orders: string) =>
      statement("insert order", `insert into ${orders} (id, customer) values (:id, :customerName)`);
    const select = (orders: string) =>
      statement("select order", `select id, customer from ${orders} where id = :id order by id`);

    const insertsAndReads = async (on: SqlQueryable, orders: string): Promise<void> => {
      expect(await on.query(insert(orders), { id: 7, customerName: "it's :id, $1 and @id" })).toEqual([]);
      expect(await on.query(select(orders), { id: 7 })).toMatchObject([
        { id: 7, customer: "it's :id, $1 and @id" },
      ]);
    };

    it("MID-01 take :name outside a transaction", async () => {
      await insertsAndReads(database().db.driver, await withOrders());
    });

    it("MID-01 take :name in the driver's transaction", async () => {
      const orders = await withOrders();
      await database().db.driver.transaction((tx) => insertsAndReads(tx, orders));
    });

    it("MID-01 OBX-003 take :name in the caller's transaction", async () => {
      const orders = await withOrders();
      const caller = await database().begin();
      await insertsAndReads(caller.tx, orders);
      await caller.rollback();
      expect(await database().db.driver.query(select(orders), { id: 7 })).toEqual([]);
    });

    it("MID-01 a parameter may occur more than once, and one without a value is null", async () => {
      const orders = await withOrders();
      const { driver } = database().db;
      await driver.query(insert(orders), { id: 1 });
      const either = statement(
        "either",
        `select id, customer from ${orders} where id = :id or (id = :id + 1 and customer is not null)`,
      );
      expect(await driver.query(either, { id: 1 })).toMatchObject([{ id: 1, customer: null }]);
    });

    it("MID-01 a name in a string literal, a quoted name or a comment is no parameter", async () => {
      const orders = await withOrders();
      const { driver } = database().db;
      await driver.query(insert(orders), { id: 1, customerName: "c" });
      const quoting = statement(
        "quoting",
        `select id as "a:id", 'it''s :id' as literal /* not :this
 nor :that */ from ${orders} -- and not :other
where id = :id`,
      );
      expect(await driver.query(quoting, { id: 1 })).toMatchObject([{ "a:id": 1, literal: "it's :id" }]);
    });
  });
}
