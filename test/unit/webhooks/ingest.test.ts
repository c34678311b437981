import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { createInbox } from "../../../src/inbox/inbox.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import {
  createWebhookRoute,
  type ReceivedWebhook,
  type WebhookScheme,
  webhookBody,
} from "../../../src/webhooks/index.js";
import { address, now, post, reception, signed } from "./support.js";

/** A provider whose ids are where a test wants them. */
const acme: WebhookScheme = {
  verify: { kind: "signature", header: "x-signature" },
  messageId: "{json:meta.id}",
  topic: "{json:type}",
  tenant: "{json:account}",
  keepHeaders: ["X-Region"],
};
const secrets = "secret-of-16-bytes";
const sources = { acme: { scheme: acme, secrets } };
const send = (body: string | Uint8Array, headers: Record<string, string> = {}) =>
  signed(acme, { secrets, body, headers }, "acme");
const bodyHash = (body: string | Uint8Array) =>
  `body-sha256:${createHash("sha256").update("acme\0").update(body).digest("hex")}`;

describe("a webhook that is accepted", () => {
  it("FUN-01 a new webhook and its duplicate are answered 200, and one message is stored", async () => {
    const { route, messages, counts } = await reception({ sources });
    const body = '{"meta":{"id":"e1"},"type":"paid","account":"t1"}';
    const answers = [await route(send(body)), await route(send(body))];
    expect(answers.map((answer) => answer.status)).toEqual([200, 200]);
    expect(answers.map((answer) => answer.headers.get("content-type"))).toEqual(
      Array(2).fill("application/json"),
    );
    expect(await Promise.all(answers.map((answer) => answer.json()))).toEqual([
      { outcome: "enqueued", messageId: "e1" },
      { outcome: "duplicate", messageId: "e1" },
    ]);
    expect(await messages()).toMatchObject([
      {
        source: "acme",
        messageId: "e1",
        topic: "acme.paid",
        payload: body,
        deliveries: 2,
        headers: { "content-type": "application/json", "oncebox-tenant": "t1" },
      },
    ]);
    const digest = createHash("sha256").update(body).digest("hex");
    expect((await messages())[0]!.hash).toBe(`sha256:${digest}`);
    expect(counts.map(({ attributes }) => attributes.outcome)).toEqual(["enqueued", "duplicate"]);
  });

  it("FUN-01 IBX-008 the same id with other content is stored, logged as a warning and answered 200 as a conflict", async () => {
    const { route, messages } = await reception({ sources });
    await route(send('{"meta":{"id":"e1"},"n":1}'));
    const answer = await route(send('{"meta":{"id":"e1"},"n":2}'));
    expect(answer.status).toBe(200);
    expect(await answer.json()).toEqual({ outcome: "conflict", messageId: "e1" });
    expect(await messages()).toMatchObject([{ payload: '{"meta":{"id":"e1"},"n":2}' }]);
  });

  it("FUN-01 IBX-028 a message that was handled before, or is dead, is answered 200 too", async () => {
    const { route, inbox } = await reception({ sources });
    const outcomes: unknown[] = [];
    for (const end of ["markProcessed", "markDead"] as const) {
      const body = `{"meta":{"id":"${end}"}}`;
      await route(send(body));
      await inbox[end]({ source: "acme", messageId: end });
      const answer = await route(send(body));
      outcomes.push([answer.status, await answer.json()]);
    }
    expect(outcomes).toEqual([
      [200, { outcome: "done", messageId: "markProcessed" }],
      [200, { outcome: "dead", messageId: "markDead" }],
    ]);
  });

  it("FUN-01 an event whose body differs only in a field that counts deliveries is a duplicate and not a conflict", async () => {
    const { route } = await reception({ sources: { stripe: { scheme: "stripe", secrets } } });
    const outcome = async (body: string) =>
      ((await (await route(signed("stripe", { secrets, body }))).json()) as { outcome: string }).outcome;
    expect(await outcome('{"id":"evt_1","pending_webhooks":2,"data":{"pending_webhooks":1}}')).toBe(
      "enqueued",
    );
    expect(await outcome('{"id":"evt_1","pending_webhooks":1,"data":{"pending_webhooks":1}}')).toBe(
      "duplicate",
    );
    expect(await outcome('{"id":"evt_1","pending_webhooks":1,"data":{"pending_webhooks":2}}')).toBe(
      "conflict",
    );
  });

  it("FUN-01 a deeply nested event is stored like any other", async () => {
    const { route, messages } = await reception({ sources: { stripe: { scheme: "stripe", secrets } } });
    const deep = `${"[".repeat(490)}${"]".repeat(490)}`;
    const body = `{"id":"evt_1","data":${deep}}`;
    expect((await route(signed("stripe", { secrets, body }))).status).toBe(200);
    expect(await messages()).toMatchObject([{ messageId: "evt_1", payload: body }]);
  });

  it("FUN-01 without an id the SHA-256 of source and body is the id: the same for every delivery, never random", async () => {
    const { route, messages } = await reception({
      sources: { acme: { scheme: acme, secrets }, other: { scheme: acme, secrets } },
    });
    const body = '{"type":"ping"}';
    const first = await route(send(body));
    expect(await first.json()).toEqual({ outcome: "enqueued", messageId: bodyHash(body) });
    expect(await (await route(send(body))).json()).toMatchObject({ outcome: "duplicate" });
    expect(await (await route(send(`${body} `))).json()).toMatchObject({ outcome: "enqueued" });
    await route(signed(acme, { secrets, body }, "other"));
    expect(new Set((await messages()).map((one) => one.messageId)).size).toBe(3);
  });

  it("FUN-01 a missing, null, empty, nested or inherited id, or an object, counts as no id", async () => {
    const bodies = [
      "{}",
      '{"meta":null}',
      '{"meta":"id"}',
      '{"meta":{"id":null}}',
      '{"meta":{"id":""}}',
      '{"meta":{"id":{"a":1}}}',
      '{"meta":{"id":["e1"]}}',
      '{"meta":{"id":true}}',
      '{"meta":{"id":1.5}}',
      '{"meta":[{"id":"e1"}]}',
      '{"__proto__":{"meta":{"id":"e1"}}}',
      '{"constructor":{"prototype":{"meta":{"id":"e1"}}}}',
      "null",
      "[]",
      '"text"',
    ];
    const { route, messages } = await reception({ sources });
    for (const body of bodies) {
      expect(await (await route(send(body))).json(), body).toEqual({
        outcome: "enqueued",
        messageId: bodyHash(body),
      });
    }
    expect(await messages()).toHaveLength(bodies.length);
    expect(({} as Record<string, unknown>).meta).toBeUndefined();
  });

  it("FUN-01 keys of a prototype are found only when the event itself has them", async () => {
    const scheme: WebhookScheme = {
      ...acme,
      messageId: ["{json:__proto__.id}", "{json:items.__proto__.length}"],
      topic: "{json:constructor.name}",
    };
    const { route, messages } = await reception({ sources: { acme: { scheme, secrets } } });
    const plain = '{"items":[1]}';
    await route(send(plain));
    await route(send('{"__proto__":{"id":"own"},"constructor":{"name":"built"}}'));
    expect((await messages()).map(({ messageId, topic }) => [messageId, topic])).toEqual([
      [bodyHash(plain), "acme"],
      ["own", "acme.built"],
    ]);
  });

  it("FUN-01 a number is an id when it is exact; a number that JSON rounds never makes two events one", async () => {
    const { route, messages } = await reception({ sources });
    for (const id of ["42", "0", "9007199254740993", "9007199254740992", "12345678901234567890123"]) {
      await route(send(`{"meta":{"id":${id}}}`));
    }
    expect((await messages()).map(({ messageId }) => messageId)).toEqual([
      "42",
      "0",
      bodyHash('{"meta":{"id":9007199254740993}}'),
      bodyHash('{"meta":{"id":9007199254740992}}'),
      bodyHash('{"meta":{"id":12345678901234567890123}}'),
    ]);
  });

  it("FUN-01 IBX-011 an id that no database can hold becomes its hash, one message for one id", async () => {
    const { route, messages } = await reception({ sources });
    const ids = [
      "a".repeat(256),
      "b".repeat(10_000),
      "ends with a space ",
      "nul\0",
      "lone \ud800",
      "lone \ud801",
    ];
    for (const id of [...ids, ...ids]) {
      const body = JSON.stringify({ meta: { id } });
      expect((await route(send(body))).status, id.slice(0, 20)).toBe(200);
    }
    const stored = (await messages()).map(({ messageId }) => messageId);
    expect(stored).toHaveLength(ids.length);
    for (const id of stored) expect(id).toMatch(/^id-sha256:[0-9a-f]{64}$/);
    await route(send(JSON.stringify({ meta: { id: "a".repeat(255) } })));
    expect((await messages()).at(-1)!.messageId).toBe("a".repeat(255));
  });

  it("FUN-01 FUN-07 the tenant in a path is the part after the source, whatever prefix a gateway adds", async () => {
    const inPath = { acme: { scheme: acme, secrets, tenant: "{path}" } };
    const tenantOf = async (path: string) => {
      const { route, messages } = await reception({ sources: inPath });
      const { status } = await route(
        signed(acme, { secrets, url: `https://hooks.example.com${path}` }, "acme"),
      );
      return status === 200 ? ((await messages())[0]?.headers?.["oncebox-tenant"] ?? null) : status;
    };
    expect(await tenantOf("/webhooks/acme/t%201")).toBe("t 1");
    expect(await tenantOf("/prod/webhooks/acme/t1/")).toBe("t1");
    expect(await tenantOf("/webhooks/acme/webhooks")).toBe("webhooks");
    expect(await tenantOf("/webhooks/acme")).toBeNull();
    expect(await tenantOf("/webhooks/webhooks/acme")).toBeNull(); // "acme" is the source
    expect(await tenantOf("/webhooks/acme/%zz")).toBeNull();
    expect(await tenantOf("/webhooks/acme/t1/more")).toBe(404);
  });

  it("FUN-01 a content type is compared in any case", async () => {
    const { route } = await reception({
      sources: { acme: { scheme: acme, secrets, contentTypes: ["Application/JSON"] } },
    });
    expect((await route(send("{}", { "content-type": "application/Json; charset=utf-8" }))).status).toBe(200);
    expect((await route(send("{}", { "content-type": "text/plain" }))).status).toBe(415);
  });

  it("FUN-01 a missing or unstorable topic is the source's name; a missing or unstorable tenant is null", async () => {
    const { route, messages } = await reception({ sources });
    const bodies = [
      "{}",
      '{"type":"","account":""}',
      JSON.stringify({ type: "t".repeat(256), account: "a".repeat(256) }),
    ];
    for (const body of bodies) await route(send(body));
    expect((await messages()).map(({ topic, headers }) => [topic, headers])).toEqual(
      bodies.map(() => ["acme", { "content-type": "application/json" }]),
    );
  });

  it("FUN-01 a source's own fields override those of its scheme", async () => {
    const { route, messages } = await reception({
      sources: {
        github: {
          scheme: "github",
          secrets,
          messageId: [],
          topic: "gh.{header:x-github-event}",
          tenant: "{json:org}",
        },
      },
    });
    const body = '{"org":"o"}';
    await route(signed("github", { secrets, body, messageId: "d1", topic: "push" }));
    await route(signed("github", { secrets, body, messageId: "d2", topic: "push" }));
    expect(await messages()).toMatchObject([
      {
        topic: "github.gh.push",
        deliveries: 2,
        headers: { "oncebox-tenant": "o" },
        messageId: expect.stringMatching(/^body-sha256:/),
      },
    ]);
  });

  it("FUN-01 useful headers are kept with the message; signatures, cookies and authorizations are not", async () => {
    const { route, messages } = await reception({ sources });
    const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const headers = {
      "content-type": "application/json; charset=utf-8",
      traceparent,
      "x-region": "eu",
      cookie: "session=1",
      authorization: "Bearer 1",
      "x-other": "1",
      tracestate: "x".repeat(2_000),
    };
    await route(send('{"meta":{"id":"e1"}}', headers));
    expect((await messages())[0]!.headers).toEqual({
      "content-type": "application/json; charset=utf-8",
      traceparent,
      "x-region": "eu",
    });
  });

  it("FUN-01 a body is stored byte for byte: BOM, NUL, odd line ends and spaces, other alphabets", async () => {
    const { route, messages } = await reception({ sources });
    const bodies = [
      '\uFEFF{"a":1}',
      '{"a":"\\u0000"}\r\n',
      ' { "a" : "ß☃🚀" } ',
      '{"z":1,"a":1,"z":2}',
      '{"n":1e400}',
    ];
    for (const body of bodies) expect((await route(send(body))).status).toBe(200);
    await route(send("plain \0 text", { "content-type": "text/plain" }));
    const stored = await messages();
    expect(stored.map((one) => one.payload)).toEqual([...bodies, "plain \0 text"]);
    expect(stored.map((one) => Buffer.from(webhookBody(one)).toString())).toEqual([
      ...bodies,
      "plain \0 text",
    ]);
  });

  it("FUN-01 a body that is not UTF-8 is stored as base64 with a header that says so, and no byte is lost", async () => {
    const { route, messages } = await reception({ sources });
    const everyByte = Uint8Array.from({ length: 256 }, (_, byte) => byte);
    const zipped = gzipSync('{"meta":{"id":"e1"}}');
    await route(send(everyByte, { "content-type": "application/octet-stream" }));
    await route(send(zipped, { "content-encoding": "gzip" }));
    const stored = await messages();
    expect(stored.map((one) => one.headers)).toEqual([
      { "content-type": "application/octet-stream", "oncebox-payload-encoding": "base64" },
      {
        "content-type": "application/json",
        "content-encoding": "gzip",
        "oncebox-payload-encoding": "base64",
      },
    ]);
    expect(stored.map((one) => Buffer.from(webhookBody(one)))).toEqual([
      Buffer.from(everyByte),
      Buffer.from(zipped),
    ]);
    expect(stored.map((one) => one.messageId)).toEqual([bodyHash(everyByte), bodyHash(zipped)]);
  });

  it("FUN-01 a form with JSON in its field payload is read as that JSON", async () => {
    const { route, messages } = await reception({ sources });
    const body = new URLSearchParams({ payload: '{"meta":{"id":"e1"},"type":"block_actions"}' }).toString();
    await route(send(body, { "content-type": "application/x-www-form-urlencoded" }));
    expect(await messages()).toMatchObject([{ messageId: "e1", topic: "acme.block_actions", payload: body }]);
  });
});

describe("a webhook that is refused", () => {
  it("FUN-01 invalid JSON, and a delivery with neither id nor body, are 400", async () => {
    const { route, messages } = await reception({ sources });
    const requests = [
      send("{", {}),
      send(Uint8Array.of(0xff)),
      send(""),
      send("", { "content-type": "text/plain" }),
    ];
    for (const request of requests) {
      const answer = await route(request);
      expect([answer.status, await answer.json()]).toEqual([400, { error: "bad request" }]);
    }
    expect(await messages()).toEqual([]);
  });

  it("FUN-01 an unknown path or source is 404, a wrong method 405, a wrong content type 415", async () => {
    const { route, messages } = await reception({
      sources: { ...sources, stripe: { scheme: "stripe", secrets } },
    });
    const body = '{"id":"evt_1"}';
    const at = (url: string) => route(signed(acme, { secrets, body, url }));
    const base = "https://hooks.example.com";
    for (const path of [
      "/",
      "/webhooks",
      "/webhooks/",
      "/webhooks/nobody",
      "/webhooks/acme/more",
      "/webhooks/%zz",
      "/acme",
      "/webhooks/constructor",
      "/webhooks/ACME",
    ]) {
      const answer = await at(base + path);
      expect([answer.status, await answer.json()], path).toEqual([404, { error: "not found" }]);
    }
    for (const method of ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"]) {
      const answer = await route(new Request(address("acme"), { method }));
      expect([answer.status, answer.headers.get("allow")], method).toEqual([405, "POST"]);
    }
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/jsonx"]) {
      const answer = await route(signed("stripe", { secrets, body, headers: { "content-type": type } }));
      expect([answer.status, await answer.json()], type).toEqual([415, { error: "unsupported media type" }]);
    }
    expect(await messages()).toEqual([]);
    for (const path of [
      "/api/webhooks/acme",
      "/prod/webhooks/acme/",
      "/webhooks/%61cme?x=1",
      "/webhooks/webhooks/acme",
    ]) {
      expect((await at(base + path)).status, path).toBe(200);
    }
  });

  it("FUN-01 an unavailable database is 503 with Retry-After; the reason is logged, the content is not", async () => {
    const lines: unknown[] = [];
    const note = (message: string, fields: object) => lines.push([message, fields]);
    const route = createWebhookRoute({
      inbox: createInbox(openSqlite({ file: "/nowhere/hidden-name/app.db" })),
      sources,
      clock: () => now,
      logger: { debug: note, info: note, warn: note, error: note },
    });
    const answer = await route(send('{"meta":{"id":"e1"},"card":"4242"}'));
    expect(answer.status).toBe(503);
    expect(answer.headers.get("retry-after")).toMatch(/^\d+$/);
    expect(await answer.json()).toEqual({ error: "unavailable" });
    expect(JSON.stringify(lines)).not.toContain("4242");
    const reason = expect.stringMatching(/^storing failed: .*cannot be opened/);
    expect(lines).toMatchObject([["webhook", { status: 503, messageId: "e1", reason }]]);
  });
});

describe("after the commit", () => {
  const body = '{"meta":{"id":"e1"},"type":"paid","account":"t1"}';

  it("FUN-06 the hook is called for every new message after its commit, and for no duplicate", async () => {
    const heard: unknown[] = [];
    const { route, inbox } = await reception({
      sources,
      afterEnqueue: async (webhook) => {
        heard.push([webhook, (await inbox.get(webhook))?.state]);
      },
    });
    await route(send(body));
    await route(send(body));
    expect(heard).toEqual([
      [{ source: "acme", messageId: "e1", topic: "acme.paid", tenant: "t1" }, "Processing"],
    ]);
  });

  it("FUN-06 a hook that throws, rejects or never ends does not fail the webhook", async () => {
    const hooks = [
      () => {
        throw new Error("4242");
      },
      () => Promise.reject(new Error("4242")),
      () => Promise.reject(undefined),
      () => new Promise(() => {}),
    ];
    for (const afterEnqueue of hooks) {
      const { route, logs } = await reception({ sources, afterEnqueue, afterEnqueueMs: 20 });
      expect((await route(send(body))).status).toBe(200);
      expect(logs.filter((line) => line.level === "warn")).toMatchObject([{ fields: { messageId: "e1" } }]);
      expect(JSON.stringify(logs)).not.toContain("4242");
    }
  });

  it("FUN-07 the inbox may be chosen by tenant; an inbox that cannot be opened is 503", async () => {
    const asked: ReceivedWebhook[] = [];
    const { inbox } = await reception({ sources });
    const route = createWebhookRoute({
      sources,
      inbox: async (webhook) => {
        asked.push(webhook);
        if (webhook.tenant === "t2") throw new Error("no such tenant");
        if (webhook.tenant === "t3") await new Promise<never>(() => {});
        return inbox;
      },
      receiveMs: 1_000,
    });
    expect((await route(send(body))).status).toBe(200);
    expect((await route(send('{"meta":{"id":"e2"},"account":"t2"}'))).status).toBe(503);
    expect((await route(send('{"meta":{"id":"e3"},"account":"t3"}'))).status).toBe(503); // and not: never
    expect(asked.map(({ tenant }) => tenant)).toEqual(["t1", "t2", "t3"]);
    expect((await inbox.list()).messages).toMatchObject([{ messageId: "e1" }]);
  });

  it("FUN-01 a logger or a meter that throws does not fail the webhook", async () => {
    const broken = () => {
      throw new Error("broken");
    };
    const { route, messages } = await reception({
      sources,
      logger: { debug: broken, info: broken, warn: broken, error: broken },
      metrics: { count: broken, duration: broken },
    });
    expect((await route(send(body))).status).toBe(200);
    expect((await route(post("acme", { body }))).status).toBe(401);
    expect(await messages()).toHaveLength(1);
  });
});
