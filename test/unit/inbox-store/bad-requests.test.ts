import { randomUUID } from "node:crypto";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sqliteService } from "../../support/inbox-service/sqlite-service.js";
import { type StartedService, token } from "../../support/inbox-service/start-service.js";

let service: StartedService;
beforeAll(async () => {
  service = await sqliteService();
});
afterAll(() => service.close());

const authorization = `Bearer ${token}`;

/** The code and the field of a 400. Nothing of the request may be left behind, so the key stays unknown. */
async function refusal(call: string, body: unknown): Promise<readonly [string, string]> {
  const { status, json } = await service.post(call, body);
  expect(status, JSON.stringify(json)).toBe(400);
  expect(json).toEqual({
    error: { code: expect.any(String), message: expect.any(String), field: expect.any(String) },
  });
  expect((await service.post("inspect", { key: "a" })).json).toEqual({ status: "Unknown" });
  return [json.error.code, json.error.field];
}

const leaseId = randomUUID();
const keyRules: readonly (readonly [string, unknown])[] = [
  ["empty", ""],
  ["over-long", "k".repeat(256)],
  ["with NUL", "a\0b"],
  ["with a line feed", "a\nb"],
  ["with DEL", "a\u007f"],
  ["with a C1 control character", "a\u0085"],
  ["that ends with a space", "a "],
  ["of a lone surrogate", "\ud800"],
  ["that is a number", 7],
  ["that is null", null],
  ["that is a list", ["a"]],
];

describe("bad requests", () => {
  it.each(keyRules)("SVC-07 a key %s is refused by every call, with its field", async (_, key) => {
    const others = { "mark-processed": { leaseId }, release: { leaseId }, renew: { leaseId } };
    for (const call of ["try-begin", "mark-processed", "release", "renew", "mark", "inspect"] as const) {
      const body = { key, ...(call in others ? others[call as keyof typeof others] : {}) };
      expect(await refusal(call, body), call).toEqual(["InvalidField", "key"]);
    }
  });

  it("SVC-06 SVC-07 a key in the path follows the same rules", async () => {
    for (const path of ["", "a%00b", "a%0Ab", "a%20", "k".repeat(256), "%", "%zz", "%ff", "%ed%a0%80"]) {
      const { status, json } = await service.send(`/v1/inbox/${path}`, { headers: { authorization } });
      expect([status, json.error.code, json.error.field], path).toEqual([400, "InvalidField", "key"]);
    }
  });

  it("SVC-03 SVC-07 SVC-08 a lease outside of 30 to 120 seconds, or that is no whole number, is refused", async () => {
    for (const leaseSeconds of [29, 121, 0, -1, 1e9, 1e300, 30.5, "30", null, true, [30]]) {
      expect(await refusal("try-begin", { key: "a", leaseSeconds })).toEqual([
        "InvalidField",
        "leaseSeconds",
      ]);
      expect(await refusal("renew", { key: "a", leaseId, leaseSeconds })).toEqual([
        "InvalidField",
        "leaseSeconds",
      ]);
    }
    expect(await refusal("try-begin", '{"key":"a","leaseSeconds":1e999}')).toEqual([
      "InvalidField",
      "leaseSeconds",
    ]);
  });

  it("SVC-03 SVC-07 an owner that cannot be stored is refused", async () => {
    for (const owner of ["", "o".repeat(101), "a\u0007", "a ", 1, null])
      expect(await refusal("try-begin", { key: "a", owner })).toEqual(["InvalidField", "owner"]);
  });

  it("SVC-04 SVC-07 a lease id that is none is refused", async () => {
    for (const wrong of ["", "x", `${leaseId}0`, ` ${leaseId}`, 1, null, {}])
      for (const call of ["mark-processed", "release", "renew", "try-begin"])
        expect(await refusal(call, { key: "a", leaseId: wrong })).toEqual(["InvalidField", "leaseId"]);
  });

  it("SVC-07 missing and unknown fields are named", async () => {
    expect(await refusal("try-begin", {})).toEqual(["MissingField", "key"]);
    for (const call of ["mark-processed", "release", "renew"])
      expect(await refusal(call, { key: "a" })).toEqual(["MissingField", "leaseId"]);
    expect(await refusal("try-begin", { key: "a", leaseMs: 30 })).toEqual(["UnknownField", "leaseMs"]);
    expect(await refusal("release", { key: "a", leaseId, owner: "b" })).toEqual(["UnknownField", "owner"]);
    expect(await refusal("try-begin", '{"key":"a","__proto__":{}}')).toEqual(["UnknownField", "__proto__"]);
    expect(await refusal("try-begin", { key: "a", constructor: 1 })).toEqual(["UnknownField", "constructor"]);
    const [, field] = await refusal("try-begin", { key: "a", ["x".repeat(5_000)]: 1 });
    expect(field).toHaveLength(100);
  });

  it("SVC-07 of a field that is there twice the last one counts, and is checked", async () => {
    expect(await refusal("try-begin", '{"leaseSeconds":30,"key":"a","leaseSeconds":3600}')).toEqual([
      "InvalidField",
      "leaseSeconds",
    ]);
    const { json } = await service.post("try-begin", '{"key":"a","key":"the last one"}');
    expect(json.status).toBe("Acquired");
    expect((await service.post("inspect", { key: "a" })).json.status).toBe("Unknown");
    expect((await service.post("inspect", { key: "the last one" })).json.status).toBe("Leased");
  });

  it("SVC-07 a body that is no JSON, or no object, is refused", async () => {
    for (const body of ["", "{", "{key: 'a'}", '\ufeff{"key":"a"}', "NaN"])
      expect(await refusal("try-begin", body), body).toEqual(["NotJson", "body"]);
    for (const body of ["null", "[]", '"a"', "1", "true", '[{"key":"a"}]'])
      expect(await refusal("try-begin", body), body).toEqual(["NotAnObject", "body"]);
    const notUtf8 = Buffer.from('{"key":"a\xff"}', "latin1");
    expect(await refusal("try-begin", notUtf8)).toEqual(["BodyUnreadable", "body"]);
    expect(await refusal("try-begin", "[".repeat(16_000))).toEqual(["NotJson", "body"]);
  });

  it("SVC-07 a body above 16 KB is refused, also when its length is not declared; one of 16 KB is read", async () => {
    const sized = (bytes: number) => `{"key":"a"${" ".repeat(bytes - 11)}}`;
    expect(await refusal("inspect", sized(16 * 1024 + 1))).toEqual(["BodyTooLarge", "body"]);
    expect((await service.post("inspect", sized(16 * 1024))).status).toBe(200);
    const chunks = async function* () {
      for (let i = 0; i < 64; i++) yield Buffer.alloc(1_024, " ");
    };
    const init = {
      method: "POST",
      headers: { authorization },
      body: ReadableStream.from(chunks()),
      duplex: "half",
    };
    const { status, json } = await service.send("/v1/inbox/inspect", init as unknown as RequestInit);
    expect([status, json.error.code, json.error.field]).toEqual([400, "BodyTooLarge", "body"]);
  });

  it("SVC-07 a request that is cut off does nothing, and the next one is answered", async () => {
    const { hostname, port } = new URL(service.url);
    const socket = connect(Number(port), hostname);
    socket.end(
      `POST /v1/inbox/try-begin HTTP/1.1\r\nhost: x\r\nauthorization: ${authorization}\r\ncontent-length: 100\r\n\r\n{"key":"a"`,
    );
    await text(socket);
    expect((await service.post("inspect", { key: "a" })).json).toEqual({ status: "Unknown" });
  });

  it("SVC-07 the document's schemas accept and refuse the same bodies as the service", async () => {
    const bodies: readonly (readonly [string, object])[] = [
      ...keyRules
        .filter(([, key]) => key !== "\ud800") // JSON Schema has no word for it
        .map(([, key]) => ["try-begin", { key }] as const),
      ["try-begin", { key: "ok" }],
      ["try-begin", { key: "k".repeat(255), owner: "o".repeat(100), leaseSeconds: 120, leaseId }],
      ["try-begin", { key: "ok", leaseSeconds: 30 }],
      ["try-begin", { key: "ok", leaseSeconds: 29 }],
      ["try-begin", { key: "ok", leaseSeconds: 30.5 }],
      ["try-begin", { key: "ok", owner: "" }],
      ["try-begin", { key: "ok", other: 1 }],
      ["mark-processed", { key: "ok", leaseId }],
      ["mark-processed", { key: "ok", leaseId: "x" }],
      ["mark-processed", { key: "ok" }],
      ["renew", { key: "ok", leaseId, leaseSeconds: 121 }],
      ["renew", { key: "ok", leaseId, leaseSeconds: 60 }],
      ["inspect", { key: "ok" }],
      ["inspect", { key: "ok", leaseId }],
    ];
    for (const [call, body] of bodies) {
      const { status } = await service.post(call, body);
      expect(service.checks.accepts(`/v1/inbox/${call}`, body), JSON.stringify(body)).toBe(status === 200);
    }
  });
});
