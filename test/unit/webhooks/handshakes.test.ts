import { describe, expect, it } from "vitest";
import type { WebhookScheme } from "../../../src/webhooks/index.js";
import { notionVerification } from "../../../src/webhooks/presets/notion.js";
import { address, altered, now, post, reception, signed } from "./support.js";

describe("handshakes", () => {
  describe("Slack's URL verification", () => {
    const secrets = "slack-secret";
    const sources = { slack: { scheme: "slack", secrets } } as const;
    const body = JSON.stringify({
      token: "t",
      challenge: "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P",
      type: "url_verification",
    });

    it("FUN-01 is answered with the challenge as text, and nothing is enqueued", async () => {
      const { route, messages, counts } = await reception({ sources });
      const answer = await route(signed("slack", { secrets, body }));
      expect(answer.status).toBe(200);
      expect(answer.headers.get("content-type")).toBe("text/plain");
      expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
      expect(await answer.text()).toBe("3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P");
      expect(await messages()).toEqual([]);
      expect(counts).toMatchObject([{ attributes: { outcome: "handshake" } }]);
    });

    it("FUN-02 is not answered when it is not signed, signed wrongly, or replayed", async () => {
      const { route } = await reception({ sources });
      const old = new Date(now.getTime() - 3_600_000);
      const requests = [
        post("slack", { body }),
        signed("slack", { secrets: "other", body }),
        signed("slack", { secrets, body, timestamp: old }),
        altered(signed("slack", { secrets, body }), {}, body.replace("3eZ", "4eZ")),
      ];
      for (const request of requests) {
        const answer = await route(request);
        expect([answer.status, await answer.json()]).toEqual([401, { error: "unauthorized" }]);
      }
    });

    it("FUN-01 without a challenge it is 400; an event with another type is an event", async () => {
      const { route, messages } = await reception({ sources });
      expect((await route(signed("slack", { secrets, body: '{"type":"url_verification"}' }))).status).toBe(
        400,
      );
      const event =
        '{"type":"event_callback","event_id":"Ev1","team_id":"T1","event":{"type":"url_verification"}}';
      await route(signed("slack", { secrets, body: event }));
      expect(await messages()).toMatchObject([{ messageId: "Ev1", topic: "slack.url_verification" }]);
    });
  });

  describe("Meta's subscription", () => {
    const sources = {
      meta: { scheme: "meta", secrets: "app-secret", verifyToken: ["vt-new", "vt-old"] },
    } as const;
    const ask = (query: Record<string, string>) =>
      new Request(`${address("meta")}?${new URLSearchParams(query)}`, { method: "GET" });

    it("FUN-01 is answered with the challenge when the verify token is right, and 401 otherwise", async () => {
      const { route, messages } = await reception({ sources });
      const query = {
        "hub.mode": "subscribe",
        "hub.verify_token": "vt-old",
        "hub.challenge": "<b>1158201444</b>",
      };
      const answer = await route(ask(query));
      expect([answer.status, await answer.text()]).toEqual([200, "<b>1158201444</b>"]);
      expect(answer.headers.get("content-type")).toBe("text/plain");
      for (const token of ["", "vt", "app-secret", "vt-new "]) {
        expect((await route(ask({ ...query, "hub.verify_token": token }))).status, token).toBe(401);
      }
      const { "hub.verify_token": _, ...without } = query;
      expect((await route(ask(without))).status).toBe(401);
      expect((await route(ask({ ...query, "hub.mode": "unsubscribe" }))).status).toBe(405);
      const { "hub.challenge": __, ...nothing } = query;
      expect((await route(ask(nothing))).status).toBe(400);
      expect(await messages()).toEqual([]);
    });

    it("FUN-02 events are verified by their signature, not by the token", async () => {
      const { route, messages } = await reception({ sources });
      const body = '{"object":"page","entry":[{"id":"p1","time":1}]}';
      const token = `${address("meta")}?hub.verify_token=vt-new`;
      expect((await route(post("meta", { body, url: token }))).status).toBe(401);
      expect((await route(signed("meta", { secrets: "app-secret", body }))).status).toBe(200);
      expect(await messages()).toMatchObject([{ topic: "meta.page", headers: { "oncebox-tenant": "p1" } }]);
    });
  });

  describe("Azure Event Grid's validation", () => {
    const sources = { eventgrid: { scheme: "eventgrid", secrets: "grid-token-of-tests" } } as const;
    const url = `${address("eventgrid")}?token=grid-token-of-tests`;
    const validation = JSON.stringify([
      {
        id: "2d1781af",
        eventType: "Microsoft.EventGrid.SubscriptionValidationEvent",
        data: { validationCode: "512d38b6-c7b8-40c8-89fe-f46f9e9622b6" },
      },
    ]);

    it("FUN-01 is answered with its code when the token is right, and 401 otherwise", async () => {
      const { route, messages } = await reception({ sources });
      const answer = await route(post("eventgrid", { body: validation, url }));
      expect([answer.status, await answer.json()]).toEqual([
        200,
        { validationResponse: "512d38b6-c7b8-40c8-89fe-f46f9e9622b6" },
      ]);
      expect((await route(post("eventgrid", { body: validation }))).status).toBe(401);
      expect((await route(post("eventgrid", { body: validation, url: `${url}x` }))).status).toBe(401);
      expect(await messages()).toEqual([]);
    });

    it("FUN-01 a CloudEvents origin is allowed when the token is right, and only when it asks", async () => {
      const { route } = await reception({ sources });
      const ask = (target: string, headers: Record<string, string>) =>
        route(new Request(target, { method: "OPTIONS", headers }));
      const origin = { "WebHook-Request-Origin": "eventgrid.azure.net" };
      const answer = await ask(url, origin);
      expect(answer.status).toBe(200);
      expect(answer.headers.get("webhook-allowed-origin")).toBe("eventgrid.azure.net");
      expect((await ask(address("eventgrid"), origin)).status).toBe(401);
      expect((await ask(url, {})).status).toBe(400);
    });

    it("FUN-01 an event is identified by its source or topic and its id, by itself or in a list", async () => {
      const { route, messages } = await reception({ sources });
      const event = '{"id":"ce-1","type":"Microsoft.Storage.BlobCreated","source":"/s"}';
      const headers = {
        "content-type": "application/cloudevents+json",
        "x-webhook-token": "grid-token-of-tests",
      };
      await route(post("eventgrid", { body: event, headers }));
      const one = '{"id":"a","topic":"/t","eventType":"Blob"}';
      await route(post("eventgrid", { body: `[${one}]`, url }));
      await route(post("eventgrid", { body: `[${one},{"id":"b","eventType":"Blob"},${event}]`, url }));
      expect((await messages()).map(({ messageId, topic }) => [messageId, topic])).toEqual([
        ["/s ce-1", "eventgrid.Microsoft.Storage.BlobCreated"],
        ["/t a", "eventgrid.Blob"],
        ["b", "eventgrid.Blob"],
      ]);
    });
  });

  it("FUN-01 GitHub's ping is an event like any other", async () => {
    const { route, messages } = await reception({ sources: { github: { scheme: "github", secrets: "s" } } });
    const headers = { "x-github-hook-id": "7", "x-github-delivery": "d1" };
    await route(signed("github", { secrets: "s", body: '{"zen":"x"}', headers, topic: "ping" }));
    expect(await messages()).toMatchObject([
      { messageId: expect.stringMatching(/^7\/d1~/), topic: "github.ping" },
    ]);
  });

  it("FUN-01 a custom scheme may have a handshake, and Allow lists its method", async () => {
    const scheme: WebhookScheme = {
      verify: { kind: "signature", header: "x-signature" },
      handshakes: [
        {
          method: "GET",
          when: { "{query:mode}": "hello" },
          verifyToken: "{header:x-verify}",
          answer: { json: { echo: "{query:word}" }, headers: { "x-answer": "yes" } },
        },
      ],
    };
    const { route } = await reception({ sources: { own: { scheme, secrets: "s", verifyToken: "v" } } });
    const ask = (query: string, headers: Record<string, string>) =>
      route(new Request(`${address("own")}?${query}`, { headers }));
    const answer = await ask("mode=hello&word=%22x", { "x-verify": "v" });
    expect([answer.status, answer.headers.get("x-answer"), await answer.json()]).toEqual([
      200,
      "yes",
      { echo: '"x' },
    ]);
    const other = await ask("mode=bye", { "x-verify": "v" });
    expect([other.status, other.headers.get("allow")]).toEqual([405, "POST, GET"]);
  });

  it("FUN-01 a handshake may be recognised by the presence of a value, like Microsoft Graph's", async () => {
    const scheme: WebhookScheme = {
      verify: { kind: "token", token: "{query:token}" },
      handshakes: [
        {
          method: "POST",
          when: { "{query:validationToken}": true },
          answer: { text: "{query:validationToken}" },
        },
      ],
    };
    const { route, messages } = await reception({ sources: { graph: { scheme, secrets: "s" } } });
    const sent = async (query: string) => {
      const answer = await route(
        post("graph", { body: '{"value":[]}', url: `${address("graph")}?${query}` }),
      );
      return [answer.status, answer.headers.get("content-type"), await answer.text()];
    };
    expect(await sent("token=s&validationToken=a%2Bb%20c")).toEqual([200, "text/plain", "a+b c"]);
    expect((await sent("token=wrong&validationToken=a"))[0]).toBe(401);
    expect(await messages()).toEqual([]);
    expect((await sent("token=s"))[2]).toContain("enqueued");
  });

  it("FUN-01 a line break in the request cannot split a header of the answer", async () => {
    const scheme: WebhookScheme = {
      verify: { kind: "signature", header: "x-signature" },
      handshakes: [
        {
          method: "GET",
          when: { "{query:mode}": "hello" },
          verifyToken: "{header:x-verify}",
          answer: { headers: { "x-echo": "{query:word}" } },
        },
      ],
    };
    const { route } = await reception({ sources: { own: { scheme, secrets: "s", verifyToken: "v" } } });
    const ask = (word: string) =>
      route(new Request(`${address("own")}?mode=hello&word=${word}`, { headers: { "x-verify": "v" } }));
    expect((await ask("one")).headers.get("x-echo")).toBe("one");
    for (const word of ["a%0D%0Aset-cookie:%20b", "a%0Ab", "%00", "%E2%82%AC"]) {
      const answer = await ask(word);
      expect([answer.status, answer.headers.get("x-echo")]).toEqual([400, null]);
    }
  });

  describe("a handshake that is stored, for what the app must know of it", () => {
    const body = '{"verification_token":"secret_of_the_provider"}';
    const sources = {
      notion: {
        scheme: "notion",
        secrets: "not-known-yet",
        verifyToken: "our-token",
        handshakes: [notionVerification],
      },
    } as const;
    const send = (query: string, content = body, headers = {}) =>
      post("notion", { body: content, url: `${address("notion")}${query}`, headers });

    it("FUN-01 is stored as a message and answered, when the address has our token", async () => {
      const { route, messages } = await reception({ sources });
      expect((await route(send("?token=our-token"))).status).toBe(200);
      expect((await route(send("?token=our-token"))).status).toBe(200);
      expect(await messages()).toMatchObject([{ topic: "notion", payload: body }]);
    });

    it("FUN-02 is refused without our token, and the token by itself lets no event in", async () => {
      const { route, messages } = await reception({ sources });
      for (const request of [send(""), send("?token=wrong"), send("?token=our-token", '{"id":"1"}')])
        expect((await route(request)).status).toBe(401);
      expect(await messages()).toEqual([]);
    });

    it("FUN-02 never has the id or the topic of an event: the token in a URL is known to proxies", async () => {
      const { route, messages } = await reception({ sources });
      const forged = '{"verification_token":"x","id":"an-event-to-come","type":"page.deleted"}';
      expect((await route(send("?token=our-token", forged))).status).toBe(200);
      expect(await messages()).toMatchObject([
        { topic: "notion", messageId: expect.stringMatching(/^body-sha256:/), payload: forged },
      ]);
    });

    it("FUN-01 needs a POST and a verifyToken: nothing unproven is stored", async () => {
      const { verifyToken: _, ...unproven } = notionVerification;
      const source = { scheme: "notion", secrets: "s", handshakes: [unproven] } as const;
      await expect(
        reception({ sources: { notion: source } }).then(({ route }) => route.prepare()),
      ).rejects.toThrow(/handshakes\[0\]\.store must be true, and for a POST with a verifyToken/);
    });
  });
});
