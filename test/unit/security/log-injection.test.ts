import { afterAll, beforeAll, expect, it } from "vitest";
import { emfMetrics } from "../../../src/adapters/aws/emf-metrics.js";
import { sqsHandler } from "../../../src/adapters/aws/sqs.js";
import { jsonLogger } from "../../../src/base/logger.js";
import { printable } from "../../../src/cli/terminal.js";
import { createDispatcher, createInbox, permanentFailure, timeBudget } from "../../../src/index.js";
import { createWebhookRoute, signWebhook, type WebhookScheme } from "../../../src/webhooks/index.js";
import {
  adminTokens,
  call,
  openHttpApis,
  serviceToken,
  signedBody,
} from "../../support/attacks/http-apis.js";

/** A new line, an ANSI sequence, its one-byte form, text from right to left, a line separator, isolates and invisible ones. */
const hostile = 'x\n{"level":"info"}\r\u001b[2J\u009b31m\u007f\u202eevil\u2028\u2066\u200b\u{e0041}';
const unsafe = /[\p{Cc}\p{Cf}\u2028\u2029]/u;
/** A header's value has no line break. In a path and a header it is percent-encoded. */
const encoded = encodeURIComponent(hostile);

const lines: string[] = [];
const logger = jsonLogger("debug", (line) => lines.push(line));
let opened: Awaited<ReturnType<typeof openHttpApis>>;
beforeAll(async () => {
  opened = await openHttpApis(logger);
});
afterAll(() => opened.close());

/** What the attack wrote: lines that are safe to show, of which some have the hostile text when they are parsed. */
async function written(attack: () => Promise<unknown>): Promise<readonly string[]> {
  lines.length = 0;
  await attack();
  expect(lines.length).toBeGreaterThan(0);
  for (const line of lines) expect(line).not.toMatch(unsafe);
  return lines.filter((line) =>
    Object.values(JSON.parse(line)).some((value) => String(value).includes(hostile)),
  );
}

it("FUN-01 no id, topic, tenant or source of a webhook can forge a log line", async () => {
  const secrets = "a secret of many bytes";
  const scheme: WebhookScheme = {
    verify: { kind: "signature", header: "x-s" },
    messageId: "{json:id}",
    topic: "{json:topic}",
    tenant: "{json:tenant}",
  };
  const afterEnqueue = () => {
    throw Object.assign(new Error(hostile), { name: hostile, code: hostile });
  };
  const route = createWebhookRoute({
    inbox: createInbox(opened.db),
    sources: { acme: { scheme, secrets }, [hostile]: { scheme, secrets } },
    afterEnqueue,
    logger,
  });
  for (const source of ["acme", encoded, `${encoded}x`]) {
    const url = `http://127.0.0.1/webhooks/${source}`;
    const body = JSON.stringify({ id: hostile, topic: hostile, tenant: hostile });
    const found = await written(async () => {
      await route(new Request(url, signWebhook(scheme, { url, body, secrets }) as RequestInit));
      await route(new Request(url, { method: "POST", body, headers: { "x-s": "00" } }));
    });
    expect(found.length, source).toBeGreaterThanOrEqual(source === `${encoded}x` ? 0 : 1);
  }
});

it("MSG-18 no field of a message between services can forge a log line", async () => {
  const receiver = opened.apis.find(({ name }) => name === "messaging receiver")!;
  const send = (body: string) => call(receiver, { ...receiver.routes[0]!, body });
  const found = await written(async () => {
    await send(signedBody({ sourceServiceId: hostile }));
    await send(signedBody({ endpoint: hostile, correlationId: hostile }));
    await send(`{"${encoded}":1}`);
  });
  expect(found.length).toBeGreaterThanOrEqual(2);
});

it("MSG-14 ADD-02 no name, tenant, person or path of a request to the diagnostics API can forge a log line", async () => {
  const admin = opened.apis.find(({ name }) => name === "diagnostics")!;
  const authorization = `Bearer ${adminTokens.alice}`;
  const person = encodeURIComponent("Ada\u202e\u2066\u200b");
  await written(async () => {
    for (const { method, path } of admin.routes)
      for (const [at, body, headers] of [
        [`${path}?${encoded}=${encoded}&tenant=${encoded}`, undefined, { authorization }],
        [path, JSON.stringify({ [hostile]: hostile, key: { [hostile]: hostile } }), { authorization }],
        [path, undefined, { authorization, "x-oncebox-by": person }],
        [path, undefined, { authorization: `Bearer ${person}:${person}` }],
        [path.replace(/[^/]+$/, encoded), undefined, { authorization, "x-oncebox-by": encoded }],
      ] as const)
        await call(admin, { method, path: at, ...(body === undefined ? {} : { body }) }, headers);
  });
});

it("SVC-07 no key, owner or field of a request to the inbox service can forge a log line", async () => {
  const service = opened.apis.find(({ name }) => name === "inbox service")!;
  await written(async () => {
    for (const { method, path } of service.routes)
      for (const body of [
        { key: hostile, owner: hostile, leaseId: hostile },
        { key: "a", [hostile]: hostile },
      ])
        await call(
          service,
          { method, path: method === "POST" ? path : `/v1/inbox/${encoded}`, body: JSON.stringify(body) },
          { authorization: `Bearer ${serviceToken}` },
        );
  });
});

it("IBX-127 OBX-106 neither a queued message nor its handler's error can forge a log line", async () => {
  const inbox = createInbox(opened.db, { logger });
  await inbox.enqueue([
    {
      source: hostile,
      messageId: hostile,
      topic: hostile,
      partitionKey: hostile,
      correlationId: hostile,
      payload: hostile,
    },
  ]);
  const dispatcher = createDispatcher({
    handlers: {
      [hostile]: () => {
        throw Object.assign(new Error(hostile), {
          name: hostile,
          code: hostile,
          stack: `Error: ${hostile}\n    at ${hostile}`,
        });
      },
    },
    logger,
  });
  const found = await written(() => dispatcher.run(inbox, timeBudget(60_000)));
  expect(found.length).toBeGreaterThan(0);
});

it("MID-11 no field of a message of a cloud's queue can forge a log line", async () => {
  const dead = createInbox(opened.db);
  for (const deadLetters of [undefined, dead]) {
    const handle = sqsHandler({
      handle: () => {
        throw permanentFailure(hostile);
      },
      ...(deadLetters === undefined ? {} : { deadLetters, subscriber: "orders" }),
      logger,
    });
    const attribute = { dataType: "String", stringValue: hostile };
    const record = {
      messageId: hostile,
      body: hostile,
      attributes: { ApproximateReceiveCount: "1", MessageGroupId: hostile },
      messageAttributes: {
        topic: attribute,
        messageId: attribute,
        correlationId: attribute,
        headers: attribute,
      },
    };
    const found = await written(() => handle({ Records: [record] } as never));
    expect(found.length).toBeGreaterThan(0);
    for (const line of found) expect(JSON.parse(line)).not.toHaveProperty("topic");
  }
});

it("FUN-06 no attribute of a metric can forge a log line", async () => {
  const written: string[] = [];
  const metrics = emfMetrics({ dimensions: ["topic"], write: (line) => written.push(line) });
  metrics.count("oncebox.handled", 1, { topic: hostile, source: hostile });
  await Promise.resolve();
  expect(written).toHaveLength(1);
  expect(written[0]!.slice(0, -1)).not.toMatch(unsafe);
  expect(JSON.parse(written[0]!)).toMatchObject({ source: hostile });
});

it("FUN-11 the command line shows such characters as text", () => {
  expect(printable(hostile)).not.toMatch(unsafe);
});
