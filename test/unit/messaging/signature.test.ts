import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { canonicalJson } from "../../../src/messaging/canonical-json.js";
import { type OpenOptions, openEnvelope } from "../../../src/messaging/open-envelope.js";
import { sharedSecretProblems, signEnvelope } from "../../../src/messaging/sign-envelope.js";
import { fieldsOf, now, opening, order, secret, signing } from "./support.js";

const after = (ms: number): Date => new Date(now.getTime() + ms);
const newSecret = (): string => randomBytes(32).toString("base64");

/** What became of a body: its kind, or the reason. */
function outcome(body: string, options: Partial<OpenOptions> = {}): string {
  const opened = openEnvelope(Buffer.from(body), { ...opening, ...options });
  return opened.kind === "opened" ? "opened" : opened.reason;
}

describe("signing and opening an envelope", () => {
  it("MSG-06 returns what was signed, without the headers of the protocol", () => {
    const headers = { traceparent: "00-1-2-01", "rf-in-reply-to": "a1b2c3d4-e5f6-7890-abcd-ef1234567890" };
    const sent = { ...order, correlationId: "c 1", messageType: "Command", headers } as const;
    const opened = openEnvelope(Buffer.from(signEnvelope(sent, signing)), opening);
    expect(opened).toEqual({ kind: "opened", envelope: sent });
  });

  it("MSG-08 a retry is signed with its own timestamp", () => {
    const [first, second] = [now, after(1_000)].map((at) => signEnvelope(order, { ...signing, now: at }));
    expect(fieldsOf(first!).headers["rf-hmac"]).not.toBe(fieldsOf(second!).headers["rf-hmac"]);
    expect(fieldsOf(second!).headers["rf-timestamp"]).toBe(after(1_000).toISOString());
  });

  it("MSG-08 the tolerance holds both ways, and is five minutes by default", () => {
    const { toleranceMs: _, ...plain } = opening;
    const at = (ms: number, toleranceMs?: number) => {
      const body = Buffer.from(signEnvelope(order, { ...signing, now: after(ms) }));
      const opened = openEnvelope(body, toleranceMs === undefined ? plain : { ...plain, toleranceMs });
      return opened.kind === "opened" ? "opened" : opened.reason;
    };
    expect([-300_000, 300_000].map((ms) => at(ms))).toEqual(["opened", "opened"]);
    expect([-300_001, 300_001].map((ms) => at(ms))).toEqual(["timestamp too old", "timestamp too new"]);
    expect([-10, 10, -11, 11].map((ms) => at(ms, 10))).toEqual([
      "opened",
      "opened",
      "timestamp too old",
      "timestamp too new",
    ]);
  });

  it("MSG-08 a clock or a tolerance that is no number accepts nothing", () => {
    const body = signEnvelope(order, signing);
    expect(outcome(body, { now: new Date(Number.NaN) })).toBe("timestamp too old");
    expect(outcome(body, { toleranceMs: Number.NaN })).toBe("timestamp too old");
  });

  it("MSG-08 during a rotation every secret of the source is valid, and the first one signs", () => {
    const [older, newer] = [newSecret(), newSecret()];
    const by = (...secrets: string[]) => signEnvelope(order, { ...signing, secrets });
    const accepting = (...secrets: string[]) => ({ secretsOf: () => secrets });
    expect(outcome(by(older), accepting(newer, older))).toBe("opened");
    expect(outcome(by(newer), accepting(newer, older))).toBe("opened");
    expect(outcome(by(newer, older), accepting(newer))).toBe("opened");
    expect(outcome(by(newer, older), accepting(older))).toBe("signature wrong");
    expect(outcome(by(older), accepting(newer))).toBe("signature wrong");
  });

  it("MSG-08 a source without secrets may not send", () => {
    const body = signEnvelope(order, signing);
    expect(outcome(body, { secretsOf: () => undefined })).toBe("unknown source");
    expect(outcome(body, { secretsOf: () => [] })).toBe("unknown source");
  });

  it("MSG-08 a message cannot be replayed at another service, nor sent back to its sender", () => {
    const body = signEnvelope(order, signing);
    expect(outcome(body, { serviceId: "billing" })).toBe("signature wrong");
    expect(outcome(body, { serviceId: "orders" })).toBe("signature wrong");
  });

  it("MSG-06 a body above the limit is malformed, one of just that size is not", () => {
    const body = signEnvelope(order, signing);
    expect(outcome(body, { maxBytes: body.length })).toBe("opened");
    expect(outcome(body, { maxBytes: body.length - 1 })).toBe("too large");
    expect(outcome(signEnvelope({ ...order, payload: "x".repeat(1 << 20) }, signing))).toBe("too large");
  });

  it("MSG-08 secrets that are no base64, or too short, are refused by place and never quoted", () => {
    const short = randomBytes(15).toString("base64");
    const bad = ["pass word!", short, "", ` ${secret}`, `${secret}\n`, 7, () => secret];
    const problems = sharedSecretProblems([...bad, secret], "destinations.inventory.secrets");
    expect(problems).toHaveLength(bad.length);
    expect(problems[0]).toBe(
      "destinations.inventory.secrets[0] is not base64; it must be the base64 text of 16 or more bytes",
    );
    expect(problems[1]).toContain("secrets[1] has 15 bytes; 16 or more are needed");
    for (const text of ["pass word!", short, secret.slice(0, 20)])
      expect(problems.join()).not.toContain(text);
    expect(sharedSecretProblems([], "s")).toEqual(["s is empty; give at least one secret"]);
    expect(sharedSecretProblems(secret, "s")).toEqual(["s must be an array of secrets"]);
    expect(sharedSecretProblems([secret, randomBytes(16).toString("base64")], "s")).toEqual([]);
    expect(() => signEnvelope(order, { ...signing, secrets: [secret, short] })).toThrow(
      'Service "inventory": secrets[1] has 15 bytes',
    );
    expect(() => signEnvelope(order, { ...signing, secrets: [] })).toThrow("secrets is empty");
    expect(() => outcome(signEnvelope(order, signing), { secretsOf: () => [short] })).toThrow(
      'Service "orders": secrets[0]',
    );
  });

  it("MSG-06 the sender refuses what a receiver would call malformed", () => {
    const refused = (change: object) => () => signEnvelope({ ...order, ...change }, signing);
    expect(refused({ messageId: "17" })).toThrow("messageId is not a GUID");
    expect(refused({ correlationId: "" })).toThrow("correlationId is not a name");
    expect(refused({ sourceServiceId: "a\0" })).toThrow("sourceServiceId is not a name");
    expect(refused({ messageType: "Event" })).toThrow("messageType is unknown");
    expect(refused({ endpoint: "e ".repeat(2) })).toThrow("endpoint is not a name");
    expect(refused({ headers: { "X-A": "1" } })).toThrow("header name is not allowed");
    expect(refused({ headers: { ["__proto__"]: "1" } })).toThrow("header name is not allowed");
    expect(refused({ headers: { "x-a": "\ud800" } })).toThrow("header value is not allowed");
    expect(refused({ headers: { "x-a": "x".repeat(8_193) } })).toThrow("header value is not allowed");
    expect(refused({ headers: { "x-a": 1 } })).toThrow("headers are not an object of strings");
    expect(refused({ headers: { "rf-hmac": "x", "rf-version": "3" } })).toThrow(
      "The protocol sets the headers rf-hmac, rf-version. Leave them out.",
    );
    expect(() => signEnvelope(order, { ...signing, destination: "" })).toThrow("destination must be");
  });

  /** A signed order whose payload's text in the body is another. */
  const withPayload = (text: string, payload: unknown = order.payload): string =>
    signEnvelope({ ...order, payload }, signing).replace(canonicalJson(payload), () => text);
  const payloadOf = (body: string): unknown => {
    const opened = openEnvelope(Buffer.from(body), opening);
    return opened.kind === "opened" ? opened.envelope.payload : opened.reason;
  };

  it("MSG-06 the payload may be written in any way, and its handler gets what was signed", () => {
    expect(payloadOf(withPayload('{ "quantity" : 3.0e0, "order\\u0049d":"A-17" }'))).toEqual(order.payload);
    expect(payloadOf(withPayload('{"quantity":3.00000000000000000001,"orderId":"A-17"}'))).toEqual(
      order.payload,
    );
    expect(payloadOf(withPayload("[-0]", [0]))).toStrictEqual([0]);
    expect(payloadOf(withPayload("[-0.0e3]", [0]))).toStrictEqual([0]);
    expect(payloadOf(withPayload('{"orderId":"A-17","quantity":4}'))).toBe("signature wrong");
    expect(payloadOf(withPayload('{"orderId":"A-17","quantity":"3"}'))).toBe("signature wrong");
  });

  it("MSG-08 of a name that is there twice, the value that is verified is the one that is used", () => {
    const forged = '{"orderId":"B-1","quantity":9}';
    const own = canonicalJson(order.payload);
    expect(payloadOf(withPayload(`${forged},"payload":${own}`))).toEqual(order.payload);
    expect(payloadOf(withPayload(`${own},"payload":${forged}`))).toBe("signature wrong");
    expect(payloadOf(withPayload(`${own},"\\u0070ayload":${forged}`))).toBe("signature wrong");
    expect(payloadOf(withPayload('{"orderId":"B-1","orderId":"A-17","quantity":3}'))).toEqual(order.payload);
    expect(payloadOf(withPayload('{"orderId":"A-17","quantity":3,"orderId":"B-1"}'))).toBe("signature wrong");
    const body = signEnvelope({ ...order, headers: { "x-tenant": "t1" } }, signing);
    expect(outcome(body.replace('"x-tenant":"t1"', '"x-tenant":"t1","x-tenant":"t2"'))).toBe(
      "signature wrong",
    );
    expect(outcome(body.replace('"endpoint":', '"endpoint":"Other","endpoint":'))).toBe("opened");
  });

  it("MSG-08 a member named __proto__ is data, and changes no object", () => {
    const payload = JSON.parse('{"__proto__":{"isAdmin":true},"a":1}') as object;
    const got = payloadOf(signEnvelope({ ...order, payload }, signing)) as { isAdmin?: boolean };
    expect(Object.keys(got)).toEqual(["__proto__", "a"]);
    expect(got.isAdmin).toBeUndefined();
    expect(payloadOf(withPayload('{"__proto__":{"isAdmin":true},"a":1}', { a: 1 }))).toBe("signature wrong");
  });

  it("MSG-06 MSG-22 a payload that another JSON parser could read as another value is malformed", () => {
    for (const [text, reason] of [
      ["1e400", "payload is NaN or infinite"],
      ["[-1e400]", "payload is NaN or infinite"],
      ["9007199254740993", "payload is a number beyond ±9007199254740991"],
      ["9007199254740992", "payload is a number beyond ±9007199254740991"],
      ["-12345678901234567890", "payload is a number beyond ±9007199254740991"],
      ["1e30", "payload is a number beyond ±9007199254740991"],
      ['"\\ud800"', "payload has a lone surrogate"],
      ['{"\\udc00":1}', "payload has a lone surrogate"],
      [`${"[".repeat(101)}${"]".repeat(101)}`, "payload is nested deeper than 100 levels"],
      [`${"[".repeat(400_000)}${"]".repeat(400_000)}`, "payload is nested deeper than 100 levels"],
      [`${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`, "payload is nested deeper than 100 levels"],
      ["NaN", "not JSON"],
      ["[", "not JSON"],
      ["", "not JSON"],
    ] as const)
      expect(payloadOf(withPayload(text)), text.slice(0, 40)).toBe(reason);
    expect(payloadOf(withPayload("9007199254740991", 9007199254740991))).toBe(9007199254740991);
  });

  // Work that grows with the square of the size would not end within the time limit of a test.
  it.each([
    ["empty arrays", `[${"[],".repeat(330_000)}0]`],
    ["objects", `[${'{"b":[],"a":{}},'.repeat(60_000)}0]`],
    [
      "names with a common beginning",
      `{${Array.from({ length: 2_000 }, (_, n) => `"${"n".repeat(480)}${n}":0`)}}`,
    ],
    ["names in descending order", `{${Array.from({ length: 80_000 }, (_, n) => `"${99_999 - n}x":0`)}}`],
    ["the same name", `{${'"a":0,'.repeat(140_000)}"a":1}`],
    ["escapes", `"${"\\u0000".repeat(160_000)}"`],
  ])("MSG-06 a megabyte of %s is verified like any other payload", (_, text) => {
    expect(outcome(withPayload(text))).toBe("signature wrong");
  });
});
