import { expect, it } from "vitest";
import { account, inventoryDoes } from "./account.js";
import { correlationOf } from "./orders.js";
import type { Entry } from "./tables.js";

const entry = (what: string, order: number): Entry => ({ what, order, correlation: correlationOf(order) });
const all = [1, 2].flatMap((order) => inventoryDoes.map((what) => entry(what(), order)));

it("MSG-16 the check of a lossy run finds what is missing, done twice, and not asked for", () => {
  const [first, ...others] = all;
  expect(account(all, 2, inventoryDoes)).toEqual({ missing: [], twice: [], unexpected: [] });
  expect(account(others, 2, inventoryDoes).missing).toEqual(["OrderApproved for 1 (order 1)"]);
  expect(account([...all, first!], 2, inventoryDoes).twice).toEqual([
    "OrderApproved for 1 (order 1): 2 times",
  ]);
  expect(account([...all, entry("ReserveStock", 3)], 2, inventoryDoes).unexpected).toEqual([
    "ReserveStock for 3 (order 3)",
  ]);
  const mixedUp = { ...first!, correlation: correlationOf(2) };
  expect(account([mixedUp, ...others], 2, inventoryDoes)).toMatchObject({
    missing: ["OrderApproved for 1 (order 1)"],
    unexpected: ["OrderApproved for 1 (order 2)"],
  });
});
