import { generateKeyPairSync, sign as nodeSign, verify as nodeVerify } from "node:crypto";
import { sign as githubSign, verify as githubVerify } from "@octokit/webhooks-methods";
import "@shopify/shopify-api/adapters/web-api";
import { ApiVersion, shopifyApi } from "@shopify/shopify-api";
import { createSHA256HMAC, HashFormat } from "@shopify/shopify-api/runtime";
import { isValidSlackRequest } from "@slack/bolt";
import { Webhook as StandardWebhook } from "standardwebhooks";
import Stripe from "stripe";
import twilio from "twilio";
import { describe, expect, it } from "vitest";
import { signWebhook } from "../../../src/webhooks/index.js";
import { schemes } from "../../support/presets/schemes.js";
import { address, now, post, reception, secondsOf, signed } from "./support.js";

const seconds = secondsOf(now);

describe("the vendors' own libraries and ours", () => {
  describe("Stripe", () => {
    const stripe = new Stripe("sk_test_unused");
    const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const payload = JSON.stringify({ id: "evt_1", object: "event", type: "charge.succeeded", name: "Zoë ☃" });

    it("FUN-01 FUN-02 MID-12 what Stripe's library signs is accepted", async () => {
      const { route, messages } = await reception({
        sources: { stripe: { scheme: "stripe", secrets: secret } },
      });
      const header = stripe.webhooks.generateTestHeaderString({ payload, secret, timestamp: seconds });
      const answer = await route(post("stripe", { body: payload, headers: { "stripe-signature": header } }));
      expect(answer.status).toBe(200);
      expect(await answer.json()).toEqual({ outcome: "enqueued", messageId: "evt_1" });
      expect(await messages()).toMatchObject([
        {
          source: "stripe",
          messageId: "evt_1",
          topic: "stripe.charge.succeeded",
          type: "charge.succeeded",
          payload,
        },
      ]);
    });

    it("FUN-02 what we sign is accepted by Stripe's library", () => {
      const { headers } = signWebhook(schemes.stripe, {
        url: address("stripe"),
        body: payload,
        secrets: secret,
        timestamp: now,
      });
      const header = headers["stripe-signature"]!;
      const event = stripe.webhooks.constructEvent(payload, header, secret, 300, undefined, now.getTime());
      expect(event.id).toBe("evt_1");
      expect(() =>
        stripe.webhooks.constructEvent(payload, header, "whsec_other", 300, undefined, now.getTime()),
      ).toThrow(/signature/);
    });
  });

  describe("GitHub", () => {
    const secret = "It's a Secret to Everybody";

    it("FUN-01 FUN-02 what GitHub's library signs is accepted", async () => {
      const { route, messages } = await reception({
        sources: { github: { scheme: "github", secrets: secret } },
      });
      const body = JSON.stringify({ action: "opened", installation: { id: 42 } });
      const headers = {
        "X-Hub-Signature-256": await githubSign(secret, body),
        "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "X-GitHub-Event": "issues",
      };
      expect((await route(post("github", { body, headers }))).status).toBe(200);
      expect(await messages()).toMatchObject([
        {
          messageId: expect.stringMatching(/^72d3162e-cc78-11e3-81ab-4c9367dc0958~[0-9a-f]{16}$/),
          topic: "github.issues",
          payload: body,
          headers: { "x-github-event": "issues", "oncebox-tenant": "42", "content-type": "application/json" },
        },
      ]);
    });

    it("FUN-02 what we sign is accepted by GitHub's library", async () => {
      const body = '{"zen":"Approachable is better than simple."}';
      const { headers } = signWebhook(schemes.github, { url: address("github"), body, secrets: secret });
      expect(await githubVerify(secret, body, headers["x-hub-signature-256"]!)).toBe(true);
      expect(await githubVerify("other", body, headers["x-hub-signature-256"]!)).toBe(false);
    });

    it("FUN-02 the example of GitHub's documentation is accepted", async () => {
      const { route } = await reception({ sources: { github: { scheme: "github", secrets: secret } } });
      const request = post("github", {
        body: "Hello, World!",
        headers: {
          "content-type": "application/x-www-form-urlencoded",
          "x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        },
      });
      expect((await route(request)).status).toBe(200);
    });
  });

  describe("Shopify", () => {
    const secret = "hush";
    const shopify = shopifyApi({
      apiKey: "key",
      apiSecretKey: secret,
      apiVersion: ApiVersion.January26 ?? ApiVersion.Unstable,
      hostName: "hooks.example.com",
      isEmbeddedApp: false,
      logger: { log: () => {} },
    });
    const body = '{"id":820982911946154500,"email":"jon@example.com"}';

    it("FUN-01 FUN-02 what Shopify's library signs is accepted", async () => {
      const { route, messages } = await reception({
        sources: { shopify: { scheme: "shopify", secrets: secret } },
      });
      const headers = {
        "X-Shopify-Hmac-Sha256": await createSHA256HMAC(secret, body, HashFormat.Base64),
        "X-Shopify-Topic": "orders/create",
        "X-Shopify-Shop-Domain": "shop.example.com",
        "X-Shopify-Webhook-Id": "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043",
      };
      expect((await route(post("shopify", { body, headers }))).status).toBe(200);
      expect(await messages()).toMatchObject([
        {
          messageId: expect.stringMatching(/^b54557e4-bdd9-4b37-8a5f-bf7d70bcd043~[0-9a-f]{16}$/),
          topic: "shopify.orders/create",
          headers: { "x-shopify-shop-domain": "shop.example.com" },
        },
      ]);
    });

    it("FUN-02 what we sign is accepted by Shopify's library", async () => {
      const request = signed("shopify", {
        secrets: secret,
        body,
        messageId: "b54557e4",
        topic: "orders/create",
        headers: {
          "x-shopify-shop-domain": "shop.example.com",
          "x-shopify-api-version": "2026-01",
        },
      });
      const valid = await shopify.webhooks.validate({ rawBody: body, rawRequest: request.clone() });
      expect(valid).toMatchObject({ valid: true, topic: "ORDERS_CREATE", webhookId: "b54557e4" });
      const other = await shopify.webhooks.validate({ rawBody: `${body} `, rawRequest: request });
      expect(other.valid).toBe(false);
    });
  });

  describe("Slack", () => {
    it("FUN-02 the example of Slack's documentation is accepted", async () => {
      const timestamp = 1531420618;
      const body =
        "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V" +
        "&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=" +
        "&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN" +
        "&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
      const { route, messages } = await reception({
        sources: { slack: { scheme: "slack", secrets: "8f742231b10e8888abcd99yyyzzz85a5" } },
        clock: () => new Date(timestamp * 1_000),
      });
      const answer = await route(
        post("slack", {
          body,
          headers: {
            "content-type": "application/x-www-form-urlencoded",
            "x-slack-request-timestamp": String(timestamp),
            "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
          },
        }),
      );
      expect(answer.status).toBe(200);
      expect(await answer.text(), "Slack would show it to the user").toBe("");
      expect(await messages()).toMatchObject([
        { topic: "slack./webhook-collect", payload: body, headers: { "oncebox-tenant": "T1DC2JH3J" } },
      ]);
    });

    it("FUN-02 what we sign is accepted by Slack's library", () => {
      const body = '{"type":"event_callback","event_id":"Ev1"}';
      const signingSecret = "8f742231b10e8888abcd99yyyzzz85a5";
      const { headers } = signWebhook(schemes.slack, {
        url: address("slack"),
        body,
        secrets: signingSecret,
        timestamp: now,
      });
      const request = {
        signingSecret,
        body,
        headers: {
          "x-slack-signature": headers["x-slack-signature"]!,
          "x-slack-request-timestamp": Number(headers["x-slack-request-timestamp"]),
        },
        nowMilliseconds: now.getTime(),
      };
      expect(isValidSlackRequest(request)).toBe(true);
      expect(isValidSlackRequest({ ...request, body: `${body} ` })).toBe(false);
    });
  });

  describe("Twilio", () => {
    const secret = "12345";
    const params = {
      AccountSid: "AC1",
      MessageSid: "SM1",
      MessageStatus: "delivered",
      To: "+1 800 555 0100",
      Body: "",
    };
    const body = new URLSearchParams(params).toString();
    const form = { "content-type": "application/x-www-form-urlencoded; charset=utf-8" };
    const url = `${address("twilio")}?foo=1&bar=2`;
    const sources = { twilio: { scheme: "twilio", secrets: secret } } as const;

    it("FUN-02 the form that Twilio's library signs is accepted", async () => {
      const { route, messages } = await reception({ sources });
      const headers = {
        ...form,
        "X-Twilio-Signature": twilio.getExpectedTwilioSignature(secret, url, params),
        "I-Twilio-Idempotency-Token": "d5a8b1c2-1",
      };
      const answer = await route(post("twilio", { body, headers, url }));
      expect(answer.status).toBe(200);
      expect(await answer.text()).toBe("<Response/>");
      expect(await messages()).toMatchObject([
        {
          messageId: expect.stringMatching(/^d5a8b1c2-1~[0-9a-f]{16}$/),
          topic: "twilio.message.delivered",
          headers: { "oncebox-tenant": "AC1" },
        },
      ]);
    });

    it("FUN-02 a repeated field, and the standard port in the signed URL, are accepted", async () => {
      const { route } = await reception({ sources });
      const many = { MediaUrl: ["b", "a", "b"], From: "x" };
      const withPort = url.replace("example.com", "example.com:443");
      const headers = {
        ...form,
        "X-Twilio-Signature": twilio.getExpectedTwilioSignature(secret, withPort, many),
      };
      const answer = await route(
        post("twilio", { body: "MediaUrl=b&From=x&MediaUrl=a&MediaUrl=b", headers, url }),
      );
      expect(answer.status).toBe(200);
    });

    it("FUN-02 JSON is accepted when its digest is in the signed URL, and refused when the digest differs", async () => {
      const { route, messages } = await reception({ sources });
      const json = '[{"type":"com.twilio.messaging.message.delivered","id":"EZ1"}]';
      const digest = `${address("twilio")}?bodySHA256=${twilio.getExpectedBodyHash(json)}`;
      const headers = { "X-Twilio-Signature": twilio.getExpectedTwilioSignature(secret, digest, {}) };
      expect((await route(post("twilio", { body: json, headers, url: digest }))).status).toBe(200);
      expect((await route(post("twilio", { body: `${json} `, headers, url: digest }))).status).toBe(401);
      expect(await messages()).toMatchObject([{ topic: "twilio.com.twilio.messaging.message.delivered" }]);
    });

    it("FUN-02 JSON without a digest is refused: the signature does not cover it", async () => {
      const { route } = await reception({ sources });
      const headers = { "X-Twilio-Signature": twilio.getExpectedTwilioSignature(secret, url, {}) };
      expect((await route(post("twilio", { body: '{"id":1}', headers, url }))).status).toBe(401);
    });

    it("FUN-02 what we sign is what is sent: the URL without its fragment, and as fetch writes it", async () => {
      const { route } = await reception({ sources });
      for (const own of [`${address("twilio")}#rc=5&rp=all`, `${url}&name=O'Brien&quoted=%27b%27`]) {
        for (const content of [body, '{"id":"EZ1"}']) {
          const made = signWebhook(schemes.twilio, {
            url: own,
            body: content,
            secrets: secret,
            headers: form,
          });
          const sent = new Request(made.url, made);
          expect(sent.url).toBe(made.url);
          expect((await route(sent)).status, own).toBe(200);
        }
      }
    });

    it("FUN-02 what we sign is accepted by Twilio's library, as a form and as JSON", () => {
      const asForm = signWebhook(schemes.twilio, { url, body, secrets: secret, headers: form });
      expect(twilio.validateRequest(secret, asForm.headers["x-twilio-signature"]!, asForm.url, params)).toBe(
        true,
      );
      const json = '{"id":"EZ1"}';
      const asJson = signWebhook(schemes.twilio, { url, body: json, secrets: secret });
      const signature = asJson.headers["x-twilio-signature"]!;
      expect(twilio.validateRequestWithBody(secret, signature, asJson.url, json)).toBe(true);
      expect(twilio.validateRequestWithBody(secret, signature, asJson.url, `${json} `)).toBe(false);
    });

    it("FUN-02 behind a gateway the URL that Twilio called is the configured one, or the forwarded one when trusted", async () => {
      const publicAddress = "https://api.example.com/prod/webhooks/twilio?x=1";
      const internal = "http://10.0.0.7:8080/webhooks/twilio?x=1";
      const signature = twilio.getExpectedTwilioSignature(secret, publicAddress, params);
      const forwarded = { "x-forwarded-proto": "https", "x-forwarded-host": "api.example.com" };
      const send = async (options: object, more: Record<string, string> = {}, target = internal) => {
        const { route } = await reception({ sources, ...options });
        const headers = { ...form, "x-twilio-signature": signature, ...more };
        return (await route(post("twilio", { body, headers, url: target }))).status;
      };
      const staged = "http://10.0.0.7:8080/prod/webhooks/twilio?x=1";
      expect(await send({})).toBe(401);
      expect(await send({}, forwarded, staged)).toBe(401);
      expect(await send({ publicUrl: "https://api.example.com/prod" })).toBe(200);
      expect(await send({ publicUrl: "https://api.example.com/prod/" }, forwarded)).toBe(200);
      const trusting = { trustForwardedHeaders: true };
      expect(await send(trusting, forwarded, staged)).toBe(200);
      expect(await send(trusting, { ...forwarded, "x-forwarded-host": "api.example.com/prod" })).toBe(401);
      for (const host of ["a:b:c", "[", "api.example.com:99999"])
        expect(await send(trusting, { ...forwarded, "x-forwarded-host": host })).toBe(401);
    });
  });

  describe("Standard Webhooks", () => {
    const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const body = '{"type":"user.created","data":{"id":1}}';

    it("FUN-01 FUN-02 what the reference library signs is accepted, with and without the secret's prefix", async () => {
      const signature = new StandardWebhook(secret).sign("msg_1", now, body);
      for (const secrets of [secret, secret.slice("whsec_".length)]) {
        const { route, messages } = await reception({ sources: { acme: { scheme: "standard", secrets } } });
        const headers = {
          "webhook-id": "msg_1",
          "webhook-timestamp": String(seconds),
          "webhook-signature": signature,
        };
        expect((await route(post("acme", { body, headers }))).status).toBe(200);
        expect(await messages()).toMatchObject([
          { source: "acme", messageId: "msg_1", topic: "acme.user.created" },
        ]);
      }
    });

    it("FUN-02 what we sign is accepted by the reference library", () => {
      const signedNow = signWebhook(schemes.standard, {
        url: address("acme"),
        body,
        secrets: secret,
        messageId: "msg_1",
      });
      const verify = (text: string) => new StandardWebhook(secret).verify(text, { ...signedNow.headers });
      expect(verify(body)).toEqual(JSON.parse(body));
      expect(() => verify(`${body} `)).toThrow(/No matching signature/);
    });

    it("FUN-02 the example of the specification's library is accepted", async () => {
      const { route } = await reception({
        sources: { acme: { scheme: "standard", secrets: secret } },
        clock: () => new Date(1614265330_000),
      });
      const headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
      };
      expect((await route(post("acme", { body: '{"test": 2432232314}', headers }))).status).toBe(200);
    });

    it("FUN-02 a v1a signature is accepted with its public key, ours by Node's Ed25519, and an HMAC is not", async () => {
      const { publicKey, privateKey } = generateKeyPairSync("ed25519");
      const { x, d } = privateKey.export({ format: "jwk" });
      const bytes = (part: string | undefined) => Buffer.from(part!, "base64url");
      const whpk = `whpk_${bytes(x).toString("base64")}`;
      const seeds = [bytes(d), Buffer.concat([bytes(d), bytes(x)])];
      const content = Buffer.from(`msg_1.${seconds}.${body}`);
      const { route } = await reception({ sources: { acme: { scheme: "standard", secrets: whpk } } });
      const send = async (signature: string) => {
        const headers = {
          "webhook-id": "msg_1",
          "webhook-timestamp": String(seconds),
          "webhook-signature": signature,
        };
        return (await route(post("acme", { body, headers }))).status;
      };
      const theirs = nodeSign(null, content, privateKey).toString("base64");
      expect(await send(`v1,AAAA v1a,${theirs}`)).toBe(200);
      expect(await send(`v1,${theirs}`)).toBe(401);
      expect(await send(`v1a,${nodeSign(null, Buffer.from("other"), privateKey).toString("base64")}`)).toBe(
        401,
      );
      // the public key is known to all, so it must never be taken for the key of an HMAC
      const forged = new StandardWebhook(bytes(x).toString("base64")).sign("msg_1", now, body);
      expect(await send(forged)).toBe(401);
      for (const seed of seeds) {
        const request = signWebhook(schemes.standard, {
          url: address("acme"),
          body,
          secrets: `whsk_${seed.toString("base64")}`,
          messageId: "msg_1",
          timestamp: now,
        });
        const [version, ours = ""] = request.headers["webhook-signature"]!.split(",");
        expect(version).toBe("v1a");
        expect(nodeVerify(null, content, publicKey, Buffer.from(ours, "base64"))).toBe(true);
      }
    });
  });
});
