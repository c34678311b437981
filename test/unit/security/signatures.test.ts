import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import {
  createWebhookRoute,
  signWebhook,
  type WebhookScheme,
  type WebhookSource,
} from "../../../src/webhooks/index.js";
import { createDelivery } from "../../../src/webhooks/schemes/delivery.js";
import { refusalOf } from "../../../src/webhooks/schemes/signature-verifier.js";
import { sortedForm } from "../../../src/webhooks/schemes/signed-content.js";
import type { SigningKey } from "../../../src/webhooks/schemes/signing-key.js";
import { anyInbox, schemes } from "../../support/presets/schemes.js";
import { address, now, post, reception, secondsOf, signed } from "../webhooks/support.js";

const secrets = "a secret of many bytes";
const standardSecret = `whsec_${Buffer.alloc(24, 7).toString("base64")}`;

const route = (source: WebhookSource) =>
  createWebhookRoute({ inbox: anyInbox, sources: { acme: source } as Record<string, WebhookSource> });

describe("a captured delivery", () => {
  /** GitHub signs only the body: the headers are the attacker's. */
  const captured = (body: string, headers: Record<string, string>) => {
    const request = signed("github", { secrets, body, messageId: "known", topic: "push" });
    for (const [name, value] of Object.entries(headers)) request.headers.set(name, value);
    return request;
  };

  it("FUN-02 FUN-05 cannot replace the content of a waiting message whose id is not signed", async () => {
    const { route, messages } = await reception({ sources: { github: { scheme: "github", secrets } } });
    await route(captured('{"genuine":1}', { "x-github-delivery": "victim" }));
    const answer = await route(captured('{"another":2}', { "x-github-delivery": "victim" }));
    expect(await answer.json()).toMatchObject({ outcome: "enqueued" });
    const stored = await messages();
    expect(stored.map(({ payload }) => payload)).toEqual(['{"genuine":1}', '{"another":2}']);
    for (const { messageId } of stored) expect(messageId).toMatch(/^victim~[0-9a-f]{16}$/);
    // The provider's own retry is still a duplicate.
    const again = await route(captured('{"genuine":1}', { "x-github-delivery": "victim" }));
    expect(await again.json()).toMatchObject({ outcome: "duplicate" });
  });

  it("FUN-02 FUN-05 an id that the signature covers stays as it is", async () => {
    const { route, messages } = await reception({
      sources: {
        standard: { scheme: "standard", secrets: standardSecret },
        stripe: { scheme: "stripe", secrets },
        twilio: { scheme: "twilio", secrets, messageId: "{query:event}" },
      },
    });
    await route(signed("standard", { secrets: standardSecret, body: "{}", messageId: "in-a-signed-header" }));
    await route(signed("stripe", { secrets, body: '{"id":"in-the-body"}' }));
    const form = { "content-type": "application/x-www-form-urlencoded" };
    const url = `${address("twilio")}?event=in-the-url`;
    await route(signed("twilio", { secrets, body: "A=1", headers: form, url }));
    const ids = (await messages()).map(({ messageId }) => messageId);
    expect(ids.sort()).toEqual(["in-a-signed-header", "in-the-body", "in-the-url"]);
  });

  it("FUN-07 cannot choose the tenant: an unsigned header is used only where the source says so", async () => {
    const headers = { "x-shopify-shop-domain": "another.example" };
    const byDefault = await reception({ sources: { shopify: { scheme: "shopify", secrets } } });
    await byDefault.route(signed("shopify", { secrets, body: "{}", headers }));
    expect((await byDefault.messages())[0]!.headers).not.toHaveProperty("oncebox-tenant");
    const tenant = "{header:x-shopify-shop-domain}";
    const asked = await reception({ sources: { shopify: { scheme: "shopify", secrets, tenant } } });
    await asked.route(signed("shopify", { secrets, body: "{}", headers }));
    expect((await asked.messages())[0]!.headers).toMatchObject({ "oncebox-tenant": "another.example" });
  });

  it("FUN-02 cannot choose the parser by its content type", async () => {
    const { route, messages } = await reception({ sources: { github: { scheme: "github", secrets } } });
    const hidden = '{"installation":{"id":1},"note":"&payload={\\"installation\\":{\\"id\\":2}}"}';
    await route(captured(hidden, { "content-type": "application/x-www-form-urlencoded" }));
    expect((await messages())[0]!.headers).toMatchObject({ "oncebox-tenant": "1" });
    const form = `payload=${encodeURIComponent('{"installation":{"id":3}}')}`;
    expect(
      createDelivery({
        method: "POST",
        url: address("x"),
        headers: new Headers(),
        body: Buffer.from(form),
      })
        .json()
        ?.value("installation.id"),
    ).toBe("3");
  });

  it("FUN-07 one tenant cannot sign for another: each has secrets of its own", async () => {
    const known: Record<string, string> = { ann: "the secret of ann 1", bob: "the secret of bob 1" };
    const scheme: WebhookScheme = { verify: { kind: "signature", header: "x-s" }, tenant: "{path}" };
    const { route, messages } = await reception({
      sources: { shop: { scheme, tenantSecrets: async (tenant) => known[tenant] } },
    });
    const send = async (tenant: string, secret: string) => {
      const url = `${address("shop")}/${tenant}`;
      const { headers, body } = signWebhook(scheme, {
        url,
        secrets: secret,
        body: `{"for":"${tenant}"}`,
        timestamp: now,
      });
      return (
        await route(
          post("shop", { url, headers: Object.fromEntries(Object.entries(headers)), body: body as string }),
        )
      ).status;
    };
    expect(await send("ann", known.ann!)).toBe(200);
    expect(await send("bob", known.ann!)).toBe(401);
    expect(await send("nobody", known.ann!)).toBe(401);
    expect(await send("bob", known.bob!)).toBe(200);
    expect((await messages()).map(({ headers }) => headers?.["oncebox-tenant"])).toEqual(["ann", "bob"]);
  });

  it("FUN-07 one tenant cannot take the id of another's message, nor make its event a duplicate", async () => {
    const known: Record<string, string> = { ann: "the secret of ann 1", bob: "the secret of bob 1" };
    const scheme: WebhookScheme = {
      verify: { kind: "signature", header: "x-s" },
      messageId: "{json:id}",
      tenant: "{query:tenant}",
    };
    const { route, messages } = await reception({
      sources: { shop: { scheme, tenantSecrets: async (tenant) => known[tenant] } },
    });
    const send = async (tenant: string, body: string) => {
      const url = `${address("shop")}?tenant=${tenant}`;
      const { headers } = signWebhook(scheme, { url, body, secrets: known[tenant]!, timestamp: now });
      const answer = await route(post("shop", { url, headers: { ...headers }, body }));
      return ((await answer.json()) as { outcome: string }).outcome;
    };
    expect(await send("ann", '{"id":"1","amount":5}')).toBe("enqueued");
    expect(await send("bob", '{"id":"1","amount":5000}')).toBe("enqueued");
    expect(await send("ann", '{"note":"no id"}')).toBe("enqueued");
    expect(await send("bob", '{"note":"no id"}')).toBe("enqueued");
    expect(await send("ann", '{"id":"1","amount":5}')).toBe("duplicate");
    const ids = (await messages()).map(({ messageId }) => messageId.replace(/[0-9a-f]{64}/, "…"));
    expect(ids.sort()).toEqual(["ann/1", "ann/body-sha256:…", "bob/1", "bob/body-sha256:…"]);
  });

  it.each([
    [{ secrets, tenantSecrets: (): string => secrets, tenant: "{path}" }, /not both/],
    [{ tenantSecrets: (): string => secrets, tenant: "{json:account}" }, /header, the query or the path/],
    [{ tenantSecrets: (): string => secrets }, /header, the query or the path/],
    [{ tenantSecrets: secrets, tenant: "{path}" }, /function/],
  ])("FUN-07 secrets per tenant are checked when the route is created", (source, said) => {
    expect(() => route({ scheme: { verify: schemes.github.verify }, ...source } as never)).toThrow(said);
  });
});

describe("keys and signed content", () => {
  it("FUN-02 an id with a dot is refused, because id and timestamp could be divided in another way", async () => {
    const { route, logs } = await reception({
      sources: { standard: { scheme: "standard", secrets: standardSecret } },
    });
    const headers = (id: string) => {
      const content = `${id}.${secondsOf(now)}.{}`;
      const signature = createHmac("sha256", Buffer.alloc(24, 7)).update(content).digest("base64");
      return {
        "webhook-id": id,
        "webhook-timestamp": String(secondsOf(now)),
        "webhook-signature": `v1,${signature}`,
      };
    };
    expect((await route(post("standard", { body: "{}", headers: headers("evt-1") }))).status).toBe(200);
    expect((await route(post("standard", { body: "{}", headers: headers("evt.1") }))).status).toBe(401);
    expect(logs.at(-1)!.fields.reason).toBe("signed header ambiguous");
    const dotted = { secrets: standardSecret, body: "{}", messageId: "evt.1" };
    expect(() => signed("standard", dotted)).toThrow(/has the sign that ends it/);
  });

  it("FUN-02 a key of fewer than 16 bytes is refused, when the route is created and when it is fetched", async () => {
    expect(() => route({ scheme: schemes.github, secrets: "x".repeat(15) })).toThrow(
      /has 15 bytes; at least 16/,
    );
    expect(() => route({ scheme: schemes.github, secrets: "x".repeat(16) })).not.toThrow();
    const short = Buffer.alloc(15).toString("base64");
    expect(() => route({ scheme: schemes.standard, secrets: `whsec_${short}` })).toThrow(/has 15 bytes/);
    expect(() => route({ scheme: schemes.github, secrets: "short", allowShortSecrets: true })).not.toThrow();
    const fetched = route({ scheme: schemes.github, secrets: () => "short" });
    expect((await fetched(post("acme", { body: "{}" }))).status).toBe(503);
  });

  it("FUN-02 an Ed25519 key of small order is refused: it accepts signatures that anybody can make", () => {
    const points = [
      "00".repeat(32),
      `01${"00".repeat(31)}`,
      `${"00".repeat(31)}80`,
      `ec${"ff".repeat(30)}7f`,
      `ec${"ff".repeat(31)}`,
      `ee${"ff".repeat(30)}7f`,
      "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
      "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    ];
    for (const point of points) {
      const key = `whpk_${Buffer.from(point, "hex").toString("base64")}`;
      expect(() => route({ scheme: schemes.standard, secrets: key }), point).toThrow(/small order/);
    }
  });
});

describe("work before a request is believed", () => {
  const large = Buffer.alloc(5 * 1_048_576, "x");

  it("FUN-02 a large body is hashed once for Ed25519, whatever number of signatures it brings", () => {
    let tried = 0;
    const key: SigningKey = {
      prefix: "v1a,",
      hashesPerSignature: true,
      secretBytes: 32,
      sign: () => new Uint8Array(),
      verify: (_content, signatures) => {
        tried += signatures.length;
        return false;
      },
    };
    const signatures = Array.from(
      { length: 10 },
      (_, i) => `v1a,${Buffer.alloc(64, i).toString("base64")}`,
    ).join(" ");
    const check = (body: Uint8Array, keys = [key]) => {
      tried = 0;
      const headers = new Headers({ "x-s": signatures });
      const delivery = createDelivery({ method: "POST", url: address("x"), headers, body });
      const rule = { kind: "signature", header: "x-s", separator: " ", encoding: "base64" } as const;
      const signed = [[{ placeholder: "body" as const, text: "" }]];
      const options = { rule, signed, signsChallenges: false, pastMs: 1, futureMs: 1, nowMs: 0 };
      expect(refusalOf(delivery, keys, options)).toBe("signature wrong");
      return tried;
    };
    expect(check(large)).toBe(1);
    expect(check(large.subarray(0, 2 * 1_048_576))).toBe(4);
    expect(check(large.subarray(0, 2 * 1_048_576), [key, key])).toBe(4); // as many for all keys of a rotation
    expect(check(Buffer.from("small"))).toBe(10);
  });

  it("FUN-02 a form of megabytes is neither parsed nor sorted", () => {
    const name = "n".repeat(5_000);
    const form = Array.from({ length: 999 }, (_, i) => `${name}${i}=x`).join("&");
    const delivery = createDelivery({
      method: "POST",
      url: address("x"),
      headers: new Headers(),
      body: Buffer.from(form),
    });
    const unparsed = { ...delivery, form: () => expect.unreachable() as never };
    expect(sortedForm(unparsed)).toBeUndefined();
  });
});
