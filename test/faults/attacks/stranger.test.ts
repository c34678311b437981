import { fork } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { silentLogger } from "../../../src/base/logger.js";
import { createApp, defineApp } from "../../../src/index.js";
import { createService, defineMessages, listen, signal } from "../../../src/messaging/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { signWebhook } from "../../../src/webhooks/index.js";
import { github } from "../../../src/webhooks/presets/github.js";
import { gitlab } from "../../../src/webhooks/presets/gitlab.js";
import { slack } from "../../../src/webhooks/presets/slack.js";
import { stripe } from "../../../src/webhooks/presets/stripe.js";
import { secretOf, signedBody } from "../../support/attacks/http-apis.js";
import type {
  StrangersReport,
  StrangersRequest,
  StrangersTask,
} from "../../support/attacks/stranger-child.js";
import { times } from "../../support/times.js";

/** Three that sign, each in another way, and one that sends a token. */
const providers = ["github", "stripe", "slack", "gitlab"] as const;
type Provider = (typeof providers)[number];
const schemes = { github, stripe, slack, gitlab } as const;
const secrets: Readonly<Record<Provider, string>> = {
  github: "a secret of github's bytes",
  stripe: `whsec_${Buffer.alloc(24, 5).toString("base64")}`,
  slack: "a secret of slack's bytes",
  gitlab: "a-token-of-gitlab-0123456789",
};
const tokens = { admin: "alice:test-secret-0123456789", service: "service-token-0123456789" };

/** An app and a receiver of messages, each on a port of the loopback. */
async function openServers() {
  const app = await createApp(
    defineApp({
      database: "sqlite::memory:",
      sources: Object.fromEntries(
        providers.map((name) => [name, { scheme: name, secrets: secrets[name] }] as const),
      ),
      handlers: {},
      admin: { tokens: tokens.admin },
      service: { tokens: tokens.service },
    }),
    { logger: false },
  );
  await app.migrate();
  const server = createServer(app.listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const db = openSqlite({ file: ":memory:" });
  const messaging = createService({
    serviceId: "inventory",
    db,
    messages: defineMessages({ OrderApproved: signal(z.object({ orderId: z.string() })) }),
    sources: { orders: { secrets: [secretOf(1)], endpoints: "*" } },
    receive: { OrderApproved: () => {} },
    logger: silentLogger,
  });
  await messaging.init();
  const listener = await listen({ address: "http://127.0.0.1:0", receiver: messaging.receiver });
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await listener.close();
    await messaging.close();
    await db.close();
    await app.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, receiver: listener.address };
}

let made = 0;
/** A delivery of an event of its own. */
function delivery(url: string, provider: Provider, secret = secrets[provider]): StrangersRequest {
  const id = `evt_${++made}`;
  const signed = signWebhook(schemes[provider], {
    url: `${url}/webhooks/${provider}`,
    secrets: secret,
    body: JSON.stringify({
      id,
      event_id: id,
      type: "event_callback",
      object_kind: "push",
      event: { type: "x" },
    }),
    messageId: id,
    topic: "push",
    headers: { "content-type": "application/json" },
  });
  return {
    what: provider,
    method: "POST",
    url: signed.url,
    headers: signed.headers,
    body: String(signed.body),
  };
}

const json = { "content-type": "application/json" };

/** What is tried again and again. Proofs are wrong or missing, and names are those of whom the servers know. */
function strangersRequests(url: string, receiver: string): readonly StrangersRequest[] {
  const post = (what: string, to: string, body: string, headers: Record<string, string> = {}) => ({
    what,
    method: "POST",
    url: to,
    headers: { ...json, ...headers },
    body,
  });
  const wrong = { github: "another secret of bytes", slack: "another secret of bytes" } as const;
  return [
    { ...delivery(url, "github", wrong.github), what: "webhook, signed by another" },
    { ...delivery(url, "slack", wrong.slack), what: "webhook, signed by another" },
    { ...delivery(url, "gitlab", "a-guessed-token-0123456789"), what: "webhook, guessed token" },
    post("webhook, not signed", `${url}/webhooks/stripe`, '{"id":"evt_1","type":"paid"}'),
    post("webhook, no source", `${url}/webhooks/none`, "{}"),
    post("webhook, large", `${url}/webhooks/github`, "x".repeat(20_000)),
    {
      what: "diagnostics, guessed token",
      method: "GET",
      url: `${url}/_oncebox/inbox/stats`,
      headers: { authorization: "Bearer alice:guessed-0123456789" },
      body: "",
    },
    {
      what: "diagnostics, no token",
      method: "GET",
      url: `${url}/_oncebox/inbox/stats`,
      headers: {},
      body: "",
    },
    post("inbox service, guessed token", `${url}/v1/inbox/mark`, '{"key":"a"}', {
      authorization: "Bearer guessed-token-0123456789",
    }),
    post("inbox service, no token", `${url}/v1/inbox/try-begin`, '{"key":"a"}'),
    post("receiver, signed by another", receiver, signedBody({}, { secret: secretOf(9) })),
    post("receiver, malformed", receiver, '{"messageId":'),
  ];
}

/** At least so many calls of each genuine caller, and at most: the diagnostics API answers 1,200 in a minute. */
const calls = { least: 20, most: 1_000 };

/** A genuine caller of each kind, who calls once more after each answer until the attack is over. */
async function callWhile(
  isAttacked: () => boolean,
  next: () => StrangersRequest,
): Promise<{ readonly called: number; readonly refused: readonly string[] }> {
  const refused: string[] = [];
  let called = 0;
  for (; called < calls.least || (isAttacked() && called < calls.most); called++) {
    const { url, method, headers, body, what } = next();
    const response = await fetch(url, { method, headers, ...(method === "GET" ? {} : { body }) }).catch(
      (error: Error) => ({ ok: false, status: `${error.message}`, text: async () => "" }),
    );
    const text = await response.text();
    if (!response.ok) refused.push(`${what}: ${response.status} ${text}`);
  }
  return { called, refused };
}

const childFile = fileURLToPath(new URL("../../support/attacks/stranger-child.ts", import.meta.url));

function startStranger(task: StrangersTask): Promise<StrangersReport> {
  const child = fork(childFile, [], { execArgv: ["--no-warnings", "--import", "tsx"] });
  child.send(task);
  return once(child, "message").then(([report]) => report as StrangersReport);
}

it("FUN-01 SVC-07 MSG-14 MSG-18 while a stranger sends 1,000 requests a second, no genuine delivery or call is refused", async () => {
  const { url, receiver } = await openServers();
  const bearer = (token: string) => ({ ...json, authorization: `Bearer ${token}` });
  const callers: Readonly<Record<string, () => StrangersRequest>> = {
    ...Object.fromEntries(providers.map((name) => [name, () => delivery(url, name)])),
    diagnostics: () => ({
      what: "diagnostics",
      method: "GET",
      url: `${url}/_oncebox/inbox/stats`,
      headers: bearer(tokens.admin),
      body: "",
    }),
    "inbox service": () => ({
      what: "inbox service",
      method: "POST",
      url: `${url}/v1/inbox/mark`,
      headers: bearer(tokens.service),
      body: `{"key":"key-${++made}"}`,
    }),
    receiver: () => ({ what: "receiver", method: "POST", url: receiver, headers: json, body: signedBody() }),
  };
  const task = { requests: strangersRequests(url, receiver), perSecond: 1_000, count: times(3_000) };
  let isOver = false;
  const attacking = startStranger(task).finally(() => {
    isOver = true;
  });
  const results = await Promise.all(
    Object.entries(callers).map(
      async ([name, next]) => [name, await callWhile(() => !isOver, next)] as const,
    ),
  );
  const { sent, seconds, statuses } = await attacking;
  const genuine = results.map(([name, { called }]) => `${name} ${called}`).join(", ");
  console.log(
    `a stranger: ${sent} requests in ${seconds.toFixed(1)} s (${Math.round(sent / seconds)} a second); genuine: ${genuine}`,
  );
  console.log(JSON.stringify(statuses));
  expect(results.flatMap(([, { refused }]) => refused)).toEqual([]);
  expect(Object.keys(statuses).filter((key) => !/: 4\d\d$/.test(key))).toEqual([]); // and of the stranger's, none is taken
}, 600_000);
