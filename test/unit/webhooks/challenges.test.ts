import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { WebhookScheme } from "../../../src/webhooks/index.js";
import { address, altered, now, post, reception, signed } from "./support.js";

const hmac = (algorithm: string, secret: string, content: string, encoding: "hex" | "base64"): string =>
  createHmac(algorithm, secret).update(content).digest(encoding);
const get = (source: string, query: string, method = "GET"): Request =>
  new Request(`${address(source)}?${query}`, { method });

/** X signs the body and nothing else, with the secret that it has challenges answered with. */
const x: WebhookScheme = {
  verify: {
    kind: "signature",
    header: "x-twitter-webhooks-signature",
    prefix: "sha256=",
    encoding: "base64",
  },
  handshakes: [
    {
      method: "GET",
      when: { "{query:crc_token}": true },
      unsigned: true,
      answer: { json: { response_token: "sha256={hmac}" }, hmac: "{query:crc_token}" },
    },
  ],
};

const zoom: WebhookScheme = {
  verify: {
    kind: "signature",
    header: "x-zm-signature",
    prefix: "v0=",
    signed: "v0:{timestamp}:{body}",
    timestamp: { header: "x-zm-request-timestamp" },
  },
  topic: "{json:event}",
  handshakes: [
    {
      method: "POST",
      when: { "{json:event}": "endpoint.url_validation" },
      answer: {
        json: { plainToken: "{json:payload.plainToken}", encryptedToken: "{hmac}" },
        hmac: "{json:payload.plainToken}",
      },
    },
  ],
};

describe("challenges that are answered with an HMAC", () => {
  const sources = { x: { scheme: x, secrets: ["consumer-secret", "the-old-one"] } };

  it("FUN-01 X's check is answered with the HMAC of its token by the first secret, and nothing is enqueued", async () => {
    const { route, messages, logs } = await reception({ sources });
    const token = "MGI2NTAyZjItYzQ1ZS00Zjg1LWI3ZDItYWZhYTUzYzY5ZmRj";
    const answer = await route(get("x", `crc_token=${token}&nonce=1`));
    const expected = hmac("sha256", "consumer-secret", token, "base64");
    expect([answer.status, await answer.json()]).toEqual([200, { response_token: `sha256=${expected}` }]);
    expect(answer.headers.get("content-type")).toBe("application/json");
    expect(await messages()).toEqual([]);
    expect(JSON.stringify(logs)).not.toContain(expected);
    expect(JSON.stringify(logs)).not.toMatch(/consumer-secret|the-old-one/);
    expect((await route(get("x", "nonce=1"))).status).toBe(405);
    expect((await route(get("x", "crc_token="))).status).toBe(405);
  });

  it("FUN-02 a challenge that could be an event is not signed", async () => {
    const { route, logs } = await reception({ sources });
    const forgeries = [
      '{"id":"1"}',
      "[1]",
      '"text"',
      "a b",
      "a&b=c",
      "%",
      "a:b",
      "a\n",
      "ü",
      "x".repeat(257),
    ];
    for (const forged of forgeries) {
      const answer = await route(get("x", `crc_token=${encodeURIComponent(forged)}`));
      expect([answer.status, await answer.json()], forged).toEqual([400, { error: "bad request" }]);
    }
    expect(
      logs.every(({ fields }) => fields?.reason === "the handshake lacks a value that its answer needs"),
    ).toBe(true);
    expect((await route(get("x", `crc_token=${"x".repeat(256)}`))).status).toBe(200);
  });

  it("FUN-02 a signed challenge is never accepted as an event, and real events are", async () => {
    const { route, messages, logs } = await reception({ sources });
    const types = ["application/json", "text/plain", "application/x-www-form-urlencoded"];
    for (const body of ["1", "-12.5e+7", "true", "null", "amount=100", "word", "0b6502f2-c45e-4f85"]) {
      const asked = await route(get("x", `crc_token=${encodeURIComponent(body)}`));
      const { response_token: signature } = (await asked.json()) as { response_token: string };
      const forged = signed(x, { secrets: "consumer-secret", body }, "x");
      expect(forged.headers.get("x-twitter-webhooks-signature")).toBe(signature); // it is the event's very signature
      for (const type of types) {
        const headers = { "content-type": type, "x-twitter-webhooks-signature": signature };
        expect((await route(post("x", { body, headers }))).status, body).toBe(401);
      }
    }
    expect(logs.map(({ fields }) => fields?.reason)).toContain("signed like a challenge"); // the first line of all these
    expect(await messages()).toEqual([]);
    for (const secrets of sources.x.secrets)
      expect((await route(signed(x, { secrets, body: `{"for":"${secrets}"}` }, "x"))).status).toBe(200);
    expect(await messages()).toHaveLength(2);
  });

  it("FUN-02 the same holds whatever a scheme signs besides the body", async () => {
    const time = String(now.getTime() / 1_000);
    const timestamp = { header: "x-time" };
    const contents: [rule: object, content: string, body: string][] = [
      [{ signed: "{timestamp}.{body}", timestamp }, `${time}.1`, "1"],
      [{ signed: "{header:x-id}.{timestamp}.{body}", timestamp }, `id.${time}.true`, "true"],
      [{ signed: "{body}{header:x-id}" }, "wordid", "word"],
      [{ signed: "{query:q}={body}" }, "q=1", "1"],
      [{ signed: "{sortedForm}" }, "amount100", "amount=100"],
      [{ signed: ["{timestamp}:{body}", "{timestamp}.{body}"], timestamp }, `${time}.1`, "1"],
    ];
    for (const [rule, content, body] of contents) {
      const scheme = { ...x, verify: { ...x.verify, ...rule } as WebhookScheme["verify"] };
      const { route, messages } = await reception({ sources: { x: { ...sources.x, scheme } } });
      const asked = await route(get("x", `crc_token=${encodeURIComponent(content)}`));
      const { response_token: signature } = (await asked.json()) as { response_token: string };
      const headers = {
        "content-type": "application/x-www-form-urlencoded",
        "x-twitter-webhooks-signature": signature,
        "x-time": time,
        "x-id": "id",
      };
      const forged = await route(post("x", { body, headers, url: `${address("x")}?q=q` }));
      expect([asked.status, forged.status], content).toEqual([200, 401]);
      expect(await messages()).toEqual([]);
    }
  });

  it("FUN-02 without a secret there is no answer", async () => {
    const away = { ...sources.x, secrets: () => Promise.reject(new Error("hunter2 is away")) };
    const empty = { ...sources.x, secrets: async () => [] };
    const { route, logs } = await reception({ sources: { away, empty } });
    for (const name of ["away", "empty"])
      expect((await route(get(name, "crc_token=abc"))).status, name).toBe(503);
    expect(JSON.stringify(logs)).not.toContain("consumer-secret");
  });

  it("FUN-01 FUN-02 Zoom's validation is answered when it is signed, in time, and a challenge", async () => {
    const { route, messages } = await reception({ sources: { zoom: { scheme: zoom, secrets: "s" } } });
    const bodyOf = (plainToken: string) =>
      JSON.stringify({ event: "endpoint.url_validation", payload: { plainToken } });
    const body = bodyOf("qgg8vlvZRS6UYooatFL8Aw");
    const answer = await route(signed(zoom, { secrets: "s", body }, "zoom"));
    expect([answer.status, await answer.json()]).toEqual([
      200,
      {
        plainToken: "qgg8vlvZRS6UYooatFL8Aw",
        encryptedToken: hmac("sha256", "s", "qgg8vlvZRS6UYooatFL8Aw", "hex"),
      },
    ]);
    const old = new Date(now.getTime() - 3_600_000);
    for (const request of [
      post("zoom", { body }),
      signed(zoom, { secrets: "other", body }, "zoom"),
      signed(zoom, { secrets: "s", body, timestamp: old }, "zoom"),
      altered(signed(zoom, { secrets: "s", body }, "zoom"), {}, body.replace("qgg", "abc")),
    ])
      expect((await route(request)).status).toBe(401);
    const event = signed(zoom, { secrets: "s", body: bodyOf("v0:1893456000:{}") }, "zoom");
    expect((await route(event)).status).toBe(400);
    expect(await messages()).toEqual([]);
    await route(signed(zoom, { secrets: "s", body: '{"event":"meeting.started"}' }, "zoom"));
    expect(await messages()).toMatchObject([{ topic: "zoom.meeting.started" }]);
  });
});

describe("unsigned handshakes", () => {
  const trello: WebhookScheme = {
    verify: {
      kind: "signature",
      header: "x-trello-webhook",
      algorithm: "sha1",
      encoding: "base64",
      signed: "{body}{url}",
    },
    handshakes: [{ method: "HEAD", when: {}, unsigned: true, answer: {} }],
  };

  it("FUN-01 Trello's HEAD is answered 200 without a body; its events are verified all the same", async () => {
    const { route, messages } = await reception({ sources: { trello: { scheme: trello, secrets: "s" } } });
    const answer = await route(get("trello", "", "HEAD"));
    expect([answer.status, await answer.text()]).toEqual([200, ""]);
    const other = await route(get("trello", ""));
    expect([other.status, other.headers.get("allow")]).toEqual([405, "POST, HEAD"]);
    const body = '{"action":{"id":"a1"}}';
    expect((await route(post("trello", { body }))).status).toBe(401);
    const headers = { "x-trello-webhook": hmac("sha1", "s", body + address("trello"), "base64") };
    expect((await route(post("trello", { body, headers }))).status).toBe(200);
    expect(await messages()).toHaveLength(1);
  });

  it("FUN-01 Dropbox's challenge is returned as text that no browser runs; a GET that only needs a 200 gets one", async () => {
    const dropbox: WebhookScheme = {
      verify: { kind: "signature", header: "x-dropbox-signature" },
      handshakes: [
        {
          method: "GET",
          when: { "{query:challenge}": true },
          unsigned: true,
          answer: { text: "{query:challenge}" },
        },
        { method: "GET", when: {}, unsigned: true, answer: {} },
      ],
    };
    const { route } = await reception({ sources: { dropbox: { scheme: dropbox, secrets: "s" } } });
    const answer = await route(get("dropbox", `challenge=${encodeURIComponent("<script>1</script>")}`));
    expect([answer.status, await answer.text()]).toEqual([200, "<script>1</script>"]);
    expect(answer.headers.get("content-type")).toBe("text/plain");
    expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
    expect(answer.headers.get("cache-control")).toBe("no-store");
    const plain = await route(get("dropbox", ""));
    expect([plain.status, await plain.text()]).toEqual([200, ""]);
  });

  it("FUN-01 FUN-02 Asana's handshake, which is posted before its secret is known, is accepted by the token in its URL; an event is not", async () => {
    const asana: WebhookScheme = {
      verify: { kind: "signature", header: "x-hook-signature" },
      contentTypes: ["application/json"],
      handshakes: [
        {
          method: "POST",
          when: { "{header:x-hook-secret}": true },
          verifyToken: "{query:token}",
          answer: { headers: { "x-hook-secret": "{header:x-hook-secret}" } },
        },
      ],
    };
    const { route, messages } = await reception({
      sources: { asana: { scheme: asana, secrets: "not-known-yet", verifyToken: "t" } },
    });
    const url = `${address("asana")}?token=t`;
    const headers = { "x-hook-secret": "b5372", "content-type": "text/plain" };
    const answer = await route(post("asana", { body: "", headers, url }));
    expect([answer.status, answer.headers.get("x-hook-secret")]).toEqual([200, "b5372"]);
    const wrong = await route(post("asana", { body: "", headers }));
    expect([wrong.status, wrong.headers.get("x-hook-secret")]).toEqual([401, null]);
    expect((await route(post("asana", { body: '{"events":[]}', url }))).status).toBe(401);
    expect((await route(signed(asana, { secrets: "not-known-yet" }, "asana"))).status).toBe(200);
    expect(await messages()).toHaveLength(1);
  });
});
