import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type OpenOptions, openEnvelope } from "../../../src/messaging/open-envelope.js";
import { serialiseEnvelope } from "../../../src/messaging/serialise-envelope.js";
import { signFields } from "../../../src/messaging/sign-envelope.js";
import { type Base, keyOf, mutatedBodies } from "./mutated-bodies.js";
import { fieldsOf, now, opening, vectors } from "./support.js";

/** The accepted vectors, signed anew: what is not signed by our code is then seen as a mutation that is accepted. */
const bases: readonly Base[] = vectors.accepted.map(({ body }) => {
  const { headers, ...rest } = fieldsOf(body);
  const { "rf-version": _, "rf-hmac": __, "rf-timestamp": timestamp, ...others } = headers;
  const secrets = opening.secretsOf(rest.sourceServiceId)!;
  const fields = signFields(
    { ...rest, headers: others },
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

describe("mutated envelopes", () => {
  it("MSG-06 MSG-08 of 100,000 none is accepted, but for those with the very same fields and payload text", () => {
    const counts = { opened: 0, refused: 0, malformed: 0 };
    fc.assert(
      fc.property(mutated, ([{ base, body }, receiver]) => {
        const isSame = Object.keys(receiver).length === 0;
        fc.pre(!isSame || !body.equals(base.body));
        const { kind } = openEnvelope(body, { ...opening, ...receiver });
        counts[kind]++;
        return kind !== "opened" || (isSame && signedKeys.has(keyOf(fieldsOf(body))));
      }),
      { numRuns: 100_000, seed: 15, endOnFailure: true },
    );
    expect(counts.opened + counts.refused + counts.malformed).toBe(100_000);
    // each outcome is frequent: the mutations reach behind the parser
    expect(Math.min(counts.opened, counts.refused, counts.malformed)).toBeGreaterThan(5_000);
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
