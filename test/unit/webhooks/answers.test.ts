import { describe, expect, it } from "vitest";
import type { WebhookInbox, WebhookScheme } from "../../../src/webhooks/index.js";
import { anyInbox } from "../../support/presets/schemes.js";
import { post, reception } from "./support.js";

const secrets = "secret";
const verify = { kind: "token", token: "{header:x-token}" } as const;
const headers = { "x-token": secrets };

describe("answers that providers expect", () => {
  it("FUN-01 an answer has its own status, no body, JSON, or a body for each outcome", async () => {
    const schemes = {
      bare: { verify, answer: { status: 204 } },
      json: { verify, answer: { json: { ok: true, count: 1 } } },
      each: { verify, answer: { body: "ok", outcomes: { duplicate: { status: 202, body: "again" } } } },
    } satisfies Record<string, WebhookScheme>;
    const { route } = await reception({
      sources: Object.fromEntries(
        Object.entries(schemes).map(([name, scheme]) => [name, { scheme, secrets }]),
      ),
    });
    const send = async (source: string) => {
      const response = await route(post(source, { body: "{}", headers }));
      return [response.status, await response.text()];
    };
    expect(await send("bare")).toEqual([204, ""]);
    expect(await send("json")).toEqual([200, '{"ok":true,"count":1}']);
    expect(await send("each")).toEqual([200, "ok"]);
    expect(await send("each")).toEqual([202, "again"]);
  });

  it("FUN-02 a refused request gets the answer that the provider expects, and others the usual one", async () => {
    const scheme: WebhookScheme = {
      verify,
      refusals: { unauthorized: {}, "bad request": { status: 422, json: [] } },
    };
    const { route } = await reception({ sources: { x: { scheme, secrets } } });
    const wrong = await route(post("x", { body: "{}" }));
    expect([wrong.status, await wrong.text()]).toEqual([401, ""]);
    const bad = await route(post("x", { body: "no JSON", headers }));
    expect([bad.status, await bad.text()]).toEqual([422, "[]"]);
    const method = await route(new Request(bad.url || "https://hooks.example.com/webhooks/x"));
    expect([method.status, await method.json()]).toEqual([405, { error: "method not allowed" }]);
  });

  it("FUN-02 a handshake answers with JSON that is not all text, and a source's handshakes are added to its scheme's", async () => {
    const ping = {
      method: "POST",
      when: { "{json:type}": "1" },
      answer: { json: { type: 1, list: [null, "{json:id}"] } },
    } as const;
    const own = {
      method: "GET",
      when: { "{query:hello}": true },
      unsigned: true,
      answer: { status: 204 },
    } as const;
    const { route, messages } = await reception({
      sources: { x: { scheme: { verify, handshakes: [ping] }, secrets, handshakes: [own] } },
    });
    const answer = await route(post("x", { body: '{"type":1,"id":"a"}', headers }));
    expect(await answer.json()).toEqual({ type: 1, list: [null, "a"] });
    expect((await route(post("x", { body: '{"type":1}', headers }))).status).toBe(400); // it lacks the id
    expect((await route(new Request("https://hooks.example.com/webhooks/x?hello=1"))).status).toBe(204);
    expect(await messages()).toEqual([]);
  });

  it("FUN-01 a scheme's receiveMs shortens the time of a request, and the route's own is never exceeded", async () => {
    // the request would wait for ever, or for a minute
    const inbox: WebhookInbox = { ...anyInbox, receive: () => new Promise(() => {}) };
    const send = async (routeMs: number | undefined, schemeMs: number | undefined) => {
      const scheme: WebhookScheme = { verify, ...(schemeMs === undefined ? {} : { receiveMs: schemeMs }) };
      const options = {
        inbox,
        sources: { x: { scheme, secrets } },
        ...(routeMs === undefined ? {} : { receiveMs: routeMs }),
      };
      const { route } = await reception(options as never);
      return (await route(post("x", { body: "{}", headers }))).status;
    };
    expect(await send(undefined, 5)).toBe(503);
    expect(await send(5, 60_000)).toBe(503);
  });

  it("FUN-01 wrong answers are refused when the route is created", async () => {
    const of = (more: object) =>
      reception({ sources: { x: { scheme: { verify, ...more } as WebhookScheme, secrets } } });
    await expect(of({ answer: { status: 500 } })).rejects.toThrow(/answer\.status must be a status 2xx/);
    await expect(of({ answer: { outcomes: { stored: {} } } })).rejects.toThrow(/unknown field stored/);
    await expect(of({ refusals: { unauthorized: { status: 200 } } })).rejects.toThrow(/4xx or 5xx/);
    await expect(of({ refusals: { forbidden: {} } })).rejects.toThrow(/unknown field forbidden/);
    await expect(of({ receiveMs: 0 })).rejects.toThrow(/receiveMs/);
    await expect(of({ methods: ["PUT"] })).rejects.toThrow(/methods must be one of/);
  });
});
