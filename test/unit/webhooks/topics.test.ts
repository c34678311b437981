import { describe, expect, it, onTestFinished } from "vitest";
import { readEnvironment } from "../../../src/config/environment.js";
import { createApp, defineApp, env, InvalidArgumentError, timeBudget } from "../../../src/index.js";
import { createWebhookRoute, signWebhook, type WebhookSource } from "../../../src/webhooks/index.js";
import { anyInbox, schemes } from "../../support/presets/schemes.js";
import { address, post, reception, signed } from "./support.js";

const secrets = "a secret of many bytes";
const gitlabToken = "a token of GitLab's webhook";
const tokenScheme = {
  verify: { kind: "token", token: "{header:x-token}" },
  messageId: "{json:id}",
  topic: "{json:type}",
} as const;

const define = (sources: Readonly<Record<string, WebhookSource>>, sharedTopics?: boolean) =>
  createWebhookRoute({
    inbox: anyInbox,
    sources,
    ...(sharedTopics === undefined ? {} : { sharedTopics }),
  });

describe("the topic of a webhook", () => {
  it("ADD-22 whoever has one source's secret cannot run the handler of another source", async () => {
    const ran: string[] = [];
    const app = await createApp(
      defineApp({
        database: "sqlite::memory:",
        logger: false,
        sources: { stripe: { secrets }, gitlab: { secrets: gitlabToken } },
        handlers: {
          "stripe.invoice.paid": ({ messageId }) => void ran.push(`stripe ${messageId}`),
          "stripe.*": ({ messageId }) => void ran.push(`any of stripe ${messageId}`),
          "invoice.paid": ({ messageId }) => void ran.push(`nobody's ${messageId}`),
          "gitlab.push": ({ messageId }) => void ran.push(`gitlab ${messageId}`),
        },
      }),
      { environment: await readEnvironment({}) },
    );
    onTestFinished(() => app.close());
    await app.migrate();
    const forged = (kind: string, id: string) =>
      app.fetch(
        post("gitlab", {
          body: JSON.stringify({ object_kind: kind, amount: 1_000_000 }),
          headers: { "x-gitlab-token": gitlabToken, "idempotency-key": id },
        }),
      );
    for (const [index, kind] of [
      "invoice.paid",
      "stripe.invoice.paid",
      ".stripe.invoice.paid",
      "push",
    ].entries())
      expect((await forged(kind, `g${index}`)).status).toBe(200);
    const body = '{"id":"evt_1","type":"invoice.paid"}';
    const genuine = signWebhook(schemes.stripe, { url: address("stripe"), body, secrets });
    expect((await app.fetch(new Request(genuine.url, { ...genuine, body }))).status).toBe(200);
    await app.dispatch(timeBudget(60_000));
    expect(ran.sort()).toEqual(["gitlab g3", "stripe evt_1"]);
    const { messages } = await app.inbox.list({ source: "gitlab" });
    expect(messages.map(({ topic }) => topic).sort()).toEqual([
      "gitlab..stripe.invoice.paid",
      "gitlab.invoice.paid",
      "gitlab.push",
      "gitlab.stripe.invoice.paid",
    ]);
  });

  it("ADD-22 MID-12 is the source's name and the type, also where the source says itself what the type is", async () => {
    const { route, messages } = await reception({
      sources: { shop: { scheme: tokenScheme, secrets, topic: ["{json:kind}", "{json:type}"] } },
    });
    const send = (event: object) =>
      route(post("shop", { body: JSON.stringify(event), headers: { "x-token": secrets } }));
    await send({ id: "1", kind: "stripe.invoice.paid" });
    await send({ id: "2", type: "shop.paid" });
    await send({ id: "3" });
    await send({ id: "4", kind: "x".repeat(251) });
    await send({ id: "5", kind: "x".repeat(250) });
    expect((await messages()).map(({ messageId, topic, type }) => [messageId, topic, type])).toEqual([
      ["1", "shop.stripe.invoice.paid", "stripe.invoice.paid"],
      ["2", "shop.shop.paid", "shop.paid"],
      ["3", "shop", "shop"],
      ["4", "shop", "shop"],
      ["5", `shop.${"x".repeat(250)}`, "x".repeat(250)],
    ]);
  });

  it("ADD-22 sharedTopics, of a source or of all, makes the template the whole topic", async () => {
    const sources = { github: { scheme: "github", secrets } } as const;
    const event = () => signed("github", { secrets, body: "{}", messageId: "d1", topic: "push" });
    const own = await reception({ sources: { github: { ...sources.github, sharedTopics: true } } });
    await own.route(event());
    expect(await own.messages()).toMatchObject([{ topic: "push", type: "push" }]);
    const all = await reception({ sources, sharedTopics: true });
    await all.route(event());
    expect(await all.messages()).toMatchObject([{ topic: "push" }]);
  });

  it("ADD-22 of two names, one may not be the beginning of the other with a dot; one error lists them all", () => {
    const source = { scheme: tokenScheme, secrets };
    const names = (...all: string[]) => Object.fromEntries(all.map((name) => [name, source]));
    expect(() => define(names("stripe", "stripe.eu", "stripe.eu.test", "stripes"))).toThrow(
      /^Webhook sources: stripe\.eu: its topics could come from the source stripe as well.*; stripe\.eu\.test: .* source stripe as well.*; stripe\.eu\.test: .* source stripe\.eu as well/,
    );
    expect(() => define(names("stripe", "stripes", "stripe-eu", "stripe_eu", "Stripe.eu"))).not.toThrow();
    expect(() => define(names("stripe", "stripe.eu"), true)).not.toThrow();
    expect(() => define({ stripe: source, "stripe.eu": { ...source, sharedTopics: true } })).not.toThrow();
  });

  it("ADD-22 an app is refused when it is defined, and with the sources of ONCEBOX_WEBHOOKS when it is made", async () => {
    const stripe = { scheme: "stripe", secrets } as const;
    const app = { database: "sqlite::memory:", logger: false } as const;
    expect(() => defineApp({ ...app, sources: { stripe, "stripe.eu": stripe } })).toThrow(
      /defineApp: stripe\.eu: its topics could come from the source stripe/,
    );
    expect(() =>
      defineApp({ ...app, sources: { stripe, "stripe.eu": stripe }, webhooks: { sharedTopics: true } }),
    ).not.toThrow();
    const ONCEBOX_WEBHOOKS = JSON.stringify({ "stripe.eu": stripe });
    const environment = await readEnvironment({ ONCEBOX_WEBHOOKS });
    await expect(createApp(defineApp({ ...app, sources: { stripe } }), { environment })).rejects.toThrow(
      /stripe\.eu: its topics could come from the source stripe/,
    );
  });

  it("ADD-22 a topic that repeats the source's name, and a flag that is no boolean, are refused", () => {
    const source = { scheme: tokenScheme, secrets };
    expect(() => define({ shop: { ...source, topic: "shop.{json:type}" } })).toThrow(
      /topic must give only the type: the topic begins with "shop\." already/,
    );
    expect(() =>
      define({ shop: { ...source, topic: "shop.{json:type}", sharedTopics: true } }),
    ).not.toThrow();
    expect(() => define({ shop: { ...source, sharedTopics: "yes" as never } })).toThrow(
      /sharedTopics must be true or false/,
    );
    expect(() => define({ shop: source }, "yes" as never)).toThrow(InvalidArgumentError);
  });
});

describe("a source without a scheme", () => {
  it("ADD-22 FUN-02 has the preset of its own name, in code and in ONCEBOX_WEBHOOKS", async () => {
    expect(env("STRIPE_WEBHOOK_SECRET")).toEqual({ from: "env", name: "STRIPE_WEBHOOK_SECRET" });
    const environment = await readEnvironment({
      STRIPE_WEBHOOK_SECRET: secrets,
      ONCEBOX_WEBHOOKS: JSON.stringify({ github: { secrets: env("STRIPE_WEBHOOK_SECRET") } }),
    });
    const app = await createApp(
      defineApp({
        database: "sqlite::memory:",
        logger: false,
        sources: { stripe: { secrets: env("STRIPE_WEBHOOK_SECRET") } },
      }),
      { environment },
    );
    onTestFinished(() => app.close());
    await app.migrate();
    for (const name of ["stripe", "github"] as const) {
      const body = '{"id":"e1","type":"ping"}';
      const request = signWebhook(schemes[name], {
        url: address(name),
        body,
        secrets,
        messageId: "d",
        topic: "t",
      });
      expect((await app.fetch(new Request(request.url, { ...request, body }))).status).toBe(200);
    }
  });

  it("FUN-02 is refused when its name is no preset's, and the error says what to write", async () => {
    const shop = { secrets } as WebhookSource;
    expect(() => define({ shop })).toThrow(
      /shop: it has no scheme, and its name is not that of a preset: write "shop": \{ scheme: … \} with one of adyen, /,
    );
    const environment = await readEnvironment({ ONCEBOX_WEBHOOKS: JSON.stringify({ shop }) });
    await expect(createApp(defineApp({ database: "sqlite::memory:" }), { environment })).rejects.toThrow(
      /shop: it has no scheme/,
    );
  });
});
