import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { uuidV7 } from "../../../src/base/uuid.js";
import {
  command,
  createService,
  defineMessages,
  type Envelope,
  listen,
  signal,
  signEnvelope,
} from "../../../src/messaging/index.js";
import { parseEnvelope } from "../../../src/messaging/open-envelope.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { type Base, keyOf, mutatedBodies } from "./mutated-bodies.js";
import { type StoredRows, storedRows } from "./stored-rows.js";
import { fieldsOf } from "./support.js";

const messages = defineMessages({
  OrderApproved: signal(z.object({ orderId: z.string() })),
  ReserveStock: command(z.object({ orderId: z.string() }), z.object({ reservation: z.string() })),
});
const secrets = { orders: Buffer.alloc(24, 1), billing: Buffer.alloc(24, 2) } as const;

function signedBase(source: keyof typeof secrets, endpoint: keyof typeof messages, now: Date): Base {
  const message: Envelope = {
    messageId: uuidV7(),
    correlationId: endpoint === "ReserveStock" ? "c-1" : null,
    sourceServiceId: source,
    messageType: messages[endpoint].messageType,
    endpoint,
    payload: { orderId: "A-17" },
    headers: { "x-tenant": "t1" },
  };
  const secret = secrets[source].toString("base64");
  const body = Buffer.from(signEnvelope(message, { destination: "inventory", secrets: [secret], now }));
  return { body, fields: fieldsOf(body) };
}

/** A receiver on a SQLite file that listens on loopback. */
async function inventory(maxBodyBytes: number) {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-mutated-"));
  const db = openSqlite({ file: join(folder, "inventory.db") });
  let handled = 0;
  const destination = (secret: Buffer) => ({
    address: "http://127.0.0.1:1/_rf/receive",
    secrets: [secret.toString("base64")],
    endpoints: "*" as const,
  });
  const service = createService({
    serviceId: "inventory",
    db,
    messages,
    maxBodyBytes,
    // as destinations both get a Response message: an accepted command also changes the outbox
    destinations: { orders: destination(secrets.orders), billing: destination(secrets.billing) },
    receive: {
      OrderApproved: () => void handled++,
      ReserveStock: ({ orderId }) => {
        handled++;
        return { reservation: orderId };
      },
    },
  });
  await service.init();
  const listener = await listen({
    address: "http://127.0.0.1:0/_rf/receive",
    receiver: service.receiver,
  });
  onTestFinished(async () => {
    await listener.close();
    await service.close();
    await db.close();
    await rm(folder, { recursive: true, force: true });
  });
  return {
    handled: () => handled,
    async status(body: Uint8Array): Promise<number> {
      const response = await fetch(listener.address, { method: "POST", body });
      await response.arrayBuffer();
      return response.status;
    },
    content: () => storedRows(db),
  };
}

const countOf = (content: StoredRows, part: RegExp) =>
  Object.entries(content)
    .filter(([name]) => part.test(name))
    .reduce((sum, [, rows]) => sum + rows.length, 0);

it("MSG-05 MSG-08 MSG-18 of 2,000 mutated requests each gets 400, 401 or 413, and none is handled or stored", async () => {
  const now = new Date();
  const base = (source: keyof typeof secrets, endpoint: keyof typeof messages) =>
    signedBase(source, endpoint, now);
  const known = [base("orders", "OrderApproved"), base("billing", "ReserveStock")];
  const unknown = [base("orders", "ReserveStock"), base("billing", "OrderApproved")];
  const bases = [...known, ...unknown];
  const signedKeys = new Set(bases.map(({ fields }) => keyOf(fields)));
  // a little above the largest, so that some that grow are too large
  const { handled, status, content } = await inventory(
    Math.max(...bases.map(({ body }) => body.length)) + 50,
  );
  for (const { body } of known) expect(await status(body)).toBe(200);
  const before = await content();
  expect(countOf(before, /_inbox/i)).toBeGreaterThan(1);
  expect(countOf(before, /_outbox/i)).toBeGreaterThan(0);

  const counts = new Map<number, number>();
  await fc.assert(
    fc.asyncProperty(mutatedBodies(bases, now), async ({ body }) => {
      const parsed = parseEnvelope(body, body.length);
      // other bytes of the very same envelope are no mutation
      fc.pre(parsed.kind !== "envelope" || !signedKeys.has(keyOf(parsed.fields)));
      const returned = await status(body);
      counts.set(returned, (counts.get(returned) ?? 0) + 1);
      return [400, 401, 413].includes(returned);
    }),
    { numRuns: 2_000, seed: 16, endOnFailure: true },
  );
  expect([...counts.keys()].sort()).toEqual([400, 401, 413]);
  expect(Math.min(...counts.values())).toBeGreaterThan(20);
  expect(handled()).toBe(2);
  expect(await content()).toEqual(before);

  for (const { body } of unknown) expect(await status(body)).toBe(200); // what was mutated is good as it was signed
  expect(handled()).toBe(4);
}, 120_000);
