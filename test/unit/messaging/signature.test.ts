import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { type OpenOptions, openEnvelope, openFields } from "../../../src/messaging/open-envelope.js";
import { sharedSecretProblems, signEnvelope, signFields } from "../../../src/messaging/sign-envelope.js";
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
    expect(opened).toEqual({ kind: "opened", envelope: sent, payloadText: JSON.stringify(order.payload) });
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

  it("MSG-06 MSG-22 fields that are carried apart are checked like a body", () => {
    const { payload, ...rest } = order;
    const fields = { ...rest, payloadText: JSON.stringify(payload) };
    const signed = signFields(fields, signing);
    const kind = (change: object) => openFields({ ...signed, ...change }, opening);
    expect(kind({})).toMatchObject({ kind: "opened", envelope: order });
    expect(kind({ payloadText: "{}" })).toMatchObject({ kind: "refused", reason: "signature wrong" });
    expect(kind({ correlationId: "" })).toMatchObject({ reason: "correlationId is not a name" });
    const deep = `${"[".repeat(101)}${"]".repeat(101)}`;
    for (const [payloadText, reason] of [
      ["", "not JSON"],
      [" {}", "not JSON"],
      ["{} ", "not JSON"],
      ['{},"endpoint":"Other"', "not JSON"],
      ['"\ud800"', "lone surrogate"],
      ['"\\ud800"', "lone surrogate"],
      [deep, "nested too deep"],
    ] as const) {
      expect(kind({ payloadText }), payloadText).toEqual({ kind: "malformed", reason });
      expect(() => signFields({ ...fields, payloadText }, signing), payloadText).toThrow(reason);
    }
    expect(() => signFields({ ...fields, payloadText: "[}" }, signing)).toThrow("not JSON");
    expect(openFields({ ...signed, extra: 1 } as typeof signed, opening)).toEqual({
      kind: "opened",
      envelope: order,
      payloadText: fields.payloadText,
    });
  });
});
