import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { writeCanonical } from "../../../src/messaging/canonical-json.js";
import { type Envelope, messageTypes } from "../../../src/messaging/envelope.js";
import { openEnvelope } from "../../../src/messaging/open-envelope.js";
import { signEnvelope, signedBytes } from "../../../src/messaging/sign-envelope.js";
import { readDocument } from "../../support/markdown.js";
import { bytesOf, fieldsOf, now, opening, secret, signing, vectors } from "./support.js";

const folder = fileURLToPath(new URL(".", import.meta.url));
const file = "test/unit/messaging/messaging_protocol.py";
const hasPython = spawnSync("python3", ["-c", "pass"]).status === 0;

/** Calls the functions of messaging_protocol.py, one for each line of its input. */
const driver = `
import base64, json, sys, messaging_protocol as protocol
for line in sys.stdin:
    name, arguments = json.loads(line)
    if name == "open":
        body, service_id, sources, now = arguments
        result = protocol.open_message(base64.b64decode(body), service_id, sources, now)
    elif name == "sign":
        result = protocol.sign(*arguments)
    else:
        result = protocol.signed_bytes(*arguments).hex()
    print(json.dumps(result))
`;

type Call = readonly ["open" | "sign" | "signed bytes", readonly unknown[]];

function python<T>(calls: readonly Call[]): readonly T[] {
  const input = calls.map((call) => `${JSON.stringify(call)}\n`).join("");
  const { stdout, stderr, status } = spawnSync("python3", ["-B", "-c", driver], {
    cwd: folder,
    input,
    encoding: "utf8",
    maxBuffer: 1 << 26,
    timeout: 50_000,
  });
  if (status !== 0) throw new Error(`python3 ended with ${status}: ${stderr}`);
  return stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as T);
}

const { sources } = vectors.receiver;
type Opened = readonly [kind: string, message: Envelope | null];

/** The message of a body, with the headers of the protocol. */
const messageOf = (body: Uint8Array | string): Envelope => {
  const { payloadText, ...fields } = fieldsOf(body);
  return { ...fields, payload: JSON.parse(payloadText) as unknown };
};

const opens = (bodies: readonly Uint8Array[]) =>
  python<Opened>(
    bodies.map((body) => [
      "open",
      [Buffer.from(body).toString("base64"), opening.serviceId, sources, now.getTime() / 1_000],
    ]),
  );

const name = fc.string({ unit: "binary", minLength: 1, maxLength: 20 }).filter((text) => !/\0| $/.test(text));
const headerName = fc.stringMatching(/^[a-z][a-z0-9._-]{0,10}$/);
const headerValue = fc.string({ unit: "binary", maxLength: 10 }).filter((text) => !/\p{Cc}/u.test(text));
/** Numbers that languages write in different ways, such as 0.00001 and 1e-7. */
const smallNumber = fc
  .tuple(fc.integer({ min: -999_999, max: 999_999 }), fc.integer({ min: -30, max: 9 }))
  .map(([mantissa, exponent]) => Number(`${mantissa}e${exponent}`));
const isInRange = (payload: unknown): boolean => "text" in writeCanonical(payload);
const envelope: fc.Arbitrary<Envelope> = fc.record({
  messageId: fc.uuid(),
  correlationId: fc.option(name),
  sourceServiceId: fc.constant("orders"),
  messageType: fc.constantFrom(...messageTypes),
  endpoint: name,
  payload: fc.oneof(
    fc.jsonValue({ stringUnit: "binary", maxDepth: 3 }).filter(isInRange),
    fc.array(smallNumber),
  ),
  headers: fc.dictionary(headerName, headerValue, { maxKeys: 5, noNullPrototype: true }),
});
const envelopes = hasPython ? fc.sample(envelope, { numRuns: 300, seed: 15 }) : [];

describe.skipIf(!hasPython)("the protocol in Python (needs python3)", () => {
  it("MSG-08 has the same outcome for every vector", () => {
    const { accepted, rejected } = vectors;
    const got = opens([...accepted, ...rejected].map(bytesOf));
    expect(got.map(([kind]) => kind)).toEqual([
      ...accepted.map(() => "opened"),
      ...rejected.map(({ outcome }) => outcome),
    ]);
    expect(got.slice(0, accepted.length).map(([, message]) => message)).toEqual(
      accepted.map(({ body }) => messageOf(body)),
    );
  });

  it("MSG-06 MSG-08 signs the same bytes, and opens what we sign", () => {
    const bodies = envelopes.map((one) => Buffer.from(signEnvelope(one, signing)));
    expect(opens(bodies)).toEqual(bodies.map((body) => ["opened", messageOf(body)]));
    const bytes = python<string>(
      bodies.map((body) => ["signed bytes", [messageOf(body), opening.serviceId]]),
    );
    expect(bytes).toEqual(
      bodies.map((body) => Buffer.from(signedBytes(fieldsOf(body), opening.serviceId)).toString("hex")),
    );
  });

  it("MSG-06 MSG-08 signs what we open, with a payload that it has written itself", () => {
    const timestamp = "2026-02-14T12:00:01Z";
    const bodies = python<string>(
      envelopes.map((message) => ["sign", [message, opening.serviceId, secret, timestamp]]),
    );
    for (const [index, body] of bodies.entries()) {
      const sent = envelopes[index]!;
      const payload = JSON.parse(JSON.stringify(sent.payload)) as unknown; // without -0
      expect(openEnvelope(Buffer.from(body), opening)).toEqual({
        kind: "opened",
        envelope: { ...sent, payload },
      });
      const changed = Buffer.from(body.replace(sent.messageId, "00000000-0000-4000-8000-000000000000"));
      expect(openEnvelope(changed, opening)).toMatchObject({ kind: "refused", reason: "signature wrong" });
    }
  });
});

describe(file, () => {
  it("MSG-08 is at most 60 lines long", () => {
    expect(readDocument(file).trimEnd().split("\n").length).toBeLessThanOrEqual(60);
  });
});
