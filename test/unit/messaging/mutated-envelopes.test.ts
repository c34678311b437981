import fc from "fast-check";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { z } from "zod";
import { createService, defineMessages, signal } from "../../../src/messaging/index.js";
import { type OpenOptions, openEnvelope, parseEnvelope } from "../../../src/messaging/open-envelope.js";
import { serialiseEnvelope, signedEnvelope } from "../../../src/messaging/sign-envelope.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { times } from "../../support/times.js";
import { type Base, keyOf, mutatedBodies } from "./mutated-bodies.js";
import { storedRows } from "./stored-rows.js";
import { fieldsOf, now, opening, vectors } from "./support.js";

/** The accepted vectors, signed anew: what is not signed by our code is then seen as a mutation that is accepted. */
const bases: readonly Base[] = vectors.accepted.map(({ body }) => {
  const { headers, payloadText, ...rest } = fieldsOf(body);
  const { "rf-version": _, "rf-hmac": __, "rf-timestamp": timestamp, ...others } = headers;
  const secrets = opening.secretsOf(rest.sourceServiceId)!;
  const fields = signedEnvelope(
    { ...rest, payload: JSON.parse(payloadText), headers: others },
    { destination: opening.serviceId, secrets, now: new Date(timestamp!) },
  );
  return { body: Buffer.from(serialiseEnvelope(fields)), fields };
});

const secrets = Object.values(vectors.receiver.sources).flat();

/** What is different about the receiver. It refuses every envelope as it was signed, but for the first receiver. */
const receivers: Readonly<Record<string, Partial<OpenOptions>>> = {
  "the same receiver": {},
  "another service": { serviceId: "billing" },
  "other secrets": { secretsOf: () => [Buffer.alloc(32).toString("base64")] },
  "secrets of other sources": {
    secretsOf: (source) => secrets.filter((one) => !opening.secretsOf(source)?.includes(one)),
  },
  "a later clock": { now: new Date(now.getTime() + 600_001) },
  "an earlier clock": { now: new Date(now.getTime() - 600_001) },
};

const signedKeys = new Set(bases.map(({ fields }) => keyOf(fields)));

const mutated = fc.tuple(
  mutatedBodies(bases, now),
  // most go to the receiver that they were signed for
  fc.nat(9 * Object.keys(receivers).length).map((n) => Object.values(receivers)[n] ?? {}),
);

/** The receiver of the vectors, on a database, at their time. */
async function inventory() {
  vi.useFakeTimers({ toFake: ["Date"], now });
  onTestFinished(() => void vi.useRealTimers());
  const db = openSqlite({ file: ":memory:" });
  onTestFinished(() => db.close());
  const { sources } = vectors.receiver;
  const service = createService({
    logger: false,
    serviceId: opening.serviceId,
    db,
    messages: defineMessages({ OrderApproved: signal(z.unknown()) }),
    sources: Object.fromEntries(
      Object.entries(sources).map(([id, given]) => [id, { secrets: given, endpoints: "*" as const }]),
    ),
    receive: { OrderApproved: () => {} },
  });
  await service.init();
  const headers = { get: () => null };
  return {
    rows: () => storedRows(db),
    async status(body: Buffer): Promise<number> {
      return (await service.receiver.handle({ method: "POST", headers, body })).status;
    },
  };
}

const count = times(20_000);

const kinds: Readonly<Record<number, "refused" | "malformed">> = { 400: "malformed", 401: "refused" };

/** Other bytes of an envelope that was signed, such as white space between its members, are no mutation. */
function isSigned(body: Buffer): boolean {
  const parsed = parseEnvelope(body, body.length);
  return parsed.kind === "envelope" && signedKeys.has(keyOf(parsed.fields));
}

describe("mutated envelopes", () => {
  it("MSG-06 MSG-08 of all mutations none is accepted, and nothing is stored", async () => {
    const { status, rows } = await inventory();
    const before = await rows();
    const counts = { opened: 0, refused: 0, malformed: 0 };
    await fc.assert(
      fc.asyncProperty(mutated, async ([{ body }, receiver]) => {
        const isSame = Object.keys(receiver).length === 0;
        fc.pre(!isSame || !isSigned(body));
        const kind = isSame
          ? (kinds[await status(body)] ?? "opened")
          : openEnvelope(body, { ...opening, ...receiver }).kind;
        counts[kind]++;
        return kind !== "opened";
      }),
      { numRuns: count, seed: 15, endOnFailure: true },
    );
    expect(counts.refused + counts.malformed).toBe(count);
    // each outcome is frequent: the mutations reach behind the parser
    expect(Math.min(counts.refused, counts.malformed)).toBeGreaterThan(count / 20);
    expect(await rows()).toEqual(before);
    expect(await status(bases[0]!.body)).toBe(200); // as it was signed
    expect(await rows()).not.toEqual(before);
  }, 120_000);

  it("MSG-08 a receiver that differs refuses every envelope as it was signed", () => {
    const others = Object.entries(receivers).slice(1);
    expect(others).toHaveLength(5);
    for (const [name, change] of others) {
      const kinds = bases.map(({ body }) => openEnvelope(body, { ...opening, ...change }).kind);
      expect(new Set(kinds), name).toEqual(new Set(["refused"]));
    }
  });
});
