import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { definitionSchema } from "../../../src/app/app-definition.js";
import { isPlainlyRight } from "../../../src/app/plain-definition.js";

const names = Object.keys(definitionSchema().shape);

/** Right for one field or another, nearly right, and wrong for all of them. */
const values: readonly unknown[] = [
  undefined,
  null,
  "",
  "text",
  0,
  -1,
  5,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  5n,
  true,
  Symbol("symbol"),
  () => {},
  class Handlers {},
  [],
  ["text"],
  {},
  { a: {} },
  { a: [] },
  { a: null },
  { a: Object.create(null) },
  { a: () => {} },
  { a: { b: 1 } },
  { constructor: () => {} },
  { a: { constructor: () => {} } },
  { [Symbol("key")]: {} },
  Object.create(null),
  Object.create({ a: {} }),
  new Map(),
  new Date(),
  new (class Own {})(),
  { from: "env", name: "URL" },
  { from: "env" },
  { open: () => {} },
  { open: 1 },
  { info: () => {} },
  { info: "text" },
  Object.assign(() => {}, { info: () => {}, open: () => {} }),
  { subscriber: "orders", handle: () => {} },
  { subscriber: "", handle: () => {} },
  { subscriber: "orders" },
  { subscriber: "orders", handle: () => {}, more: 1 },
];

const zodAccepts = (app: unknown): boolean => definitionSchema().safeParse(app).success;

describe("a definition that is plainly right", () => {
  it("FUN-09 is one that zod accepts, whatever is in a field", () => {
    for (const name of [...names, "handler"]) {
      for (const value of values) {
        const app = { [name]: value };
        if (isPlainlyRight(app)) expect(zodAccepts(app), name).toBe(true);
      }
    }
    for (const app of values) if (isPlainlyRight(app)) expect(zodAccepts(app)).toBe(true);
  });

  it("FUN-09 is one that zod accepts, whatever fields there are", () => {
    const anyApp = fc.dictionary(
      fc.constantFrom(...names, "handler", "__proto__"),
      fc.constantFrom(...values),
    );
    fc.assert(fc.property(anyApp, (app) => !isPlainlyRight(app) || zodAccepts(app)));
  });

  it("FUN-09 is the usual one, of which zod is then not asked", () => {
    const stripe = { scheme: "stripe", secrets: { from: "env", name: "STRIPE_SECRET" } };
    const usual = [
      {},
      { sources: { stripe }, handlers: { "*": () => {} }, publishers: () => ({}) },
      { database: "sqlite:app.db", schema: "infra", retentionMs: 1_000, logger: console, metrics: {} },
      { database: () => {}, inbox: {}, outbox: { table: "Outbox" }, dispatch: {}, webhooks: {} },
      { tenants: { open: () => {} }, consumer: { subscriber: "orders", handle: () => {} } },
    ];
    for (const app of usual) expect(isPlainlyRight(app)).toBe(true);
  });
});
