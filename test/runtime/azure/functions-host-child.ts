/**
 * A small Functions host for the function app in the current folder: answers its HTTP routes, polls its queues, and runs any other function on `POST /admin/functions/{name}`, as the real host does.
 */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import type { HostLog, RpcData } from "./functions-worker.js";

const tell = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);
const log: HostLog = (level, category, message, invocationId) =>
  tell({ level, category, message, invocationId });
const folder = process.cwd();
const { SCENARIO_WORKER: workerPath = "" } = process.env;
const worker =
  workerPath === ""
    ? await (await import("./in-process-worker.js")).loadInProcess(folder, log)
    : await (await import("./grpc-worker.js")).startGrpcWorker(workerPath, folder, log);

const hostJson = JSON.parse(readFileSync(join(folder, "host.json"), "utf8"));
const { routePrefix } = hostJson.extensions.http as { routePrefix: string };
const routes = [...worker.triggers].flatMap(([name, { type, route, methods }]) => {
  if (type !== "httpTrigger") return [];
  const prefix = routePrefix === "" ? "" : `/${routePrefix}`;
  const path = String(route)
    .replace(/\/\{(\w+)\?\}/g, "(?:/(?<$1>[^/]+))?")
    .replace(/\/\{\*(\w+)\}/g, "(?:/(?<$1>.*))?") // as the host's router does, also without the slash
    .replace(/\{(\w+)\}/g, "(?<$1>[^/]+)");
  const pattern = new RegExp(`^${prefix}/${path}$`);
  return [{ name, pattern, methods: methods as string[] }];
});

async function httpData(
  incoming: IncomingMessage,
  url: URL,
  params: Record<string, string>,
): Promise<RpcData> {
  const entries = Object.entries(incoming.headers).map(([key, value]) => [key, { value: String(value) }]);
  const body = await buffer(incoming);
  return {
    http: {
      method: incoming.method,
      url: url.href,
      nullableHeaders: Object.fromEntries(entries),
      params,
      ...(body.length === 0 ? {} : { body: { bytes: body } }),
    },
  };
}

interface RpcHttp {
  readonly statusCode: string;
  readonly headers: Record<string, string>;
  readonly body?: { readonly bytes?: Uint8Array } | null;
}

interface Answer {
  readonly status: number;
  readonly headers?: Record<string, string>;
  readonly body?: Uint8Array | string;
}

async function answer(incoming: IncomingMessage): Promise<Answer> {
  const url = new URL(incoming.url!, `http://${incoming.headers.host}`);
  const admin = /^\/admin\/functions\/(\w+)$/.exec(url.pathname)?.[1];
  if (admin !== undefined && worker.triggers.has(admin)) {
    const result = await worker.invoke(admin, { json: '{"IsPastDue":false}' }, randomUUID());
    return { status: 200, body: String(result?.json ?? "null") };
  }
  for (const { name, pattern, methods } of routes) {
    const match = pattern.exec(url.pathname);
    if (match === null || !methods.includes(incoming.method!)) continue;
    const result = await worker.invoke(
      name,
      await httpData(incoming, url, { ...match.groups }),
      randomUUID(),
    );
    const { statusCode, headers, body } = result!.http as RpcHttp;
    return { status: Number(statusCode), headers, body: body?.bytes ?? "" };
  }
  return { status: 404 };
}

const server = createServer(async (incoming, outgoing) => {
  try {
    const { status, headers = {}, body = "" } = await answer(incoming);
    outgoing.writeHead(status, headers).end(body);
  } catch (error) {
    tell({ level: "error", category: "host", message: String(error) });
    outgoing.writeHead(500).end();
  }
});

/** A message whose function failed is delivered again, as with the real trigger. */
async function poll(name: string, queueName: string, storage: string): Promise<never> {
  const { QueueServiceClient } = await import("@azure/storage-queue");
  const queue = QueueServiceClient.fromConnectionString(storage).getQueueClient(queueName);
  for (;;) {
    const { receivedMessageItems: received } = (await queue.exists())
      ? await queue.receiveMessages({ numberOfMessages: 1, visibilityTimeout: 30 })
      : { receivedMessageItems: [] };
    for (const { messageId, popReceipt, messageText, dequeueCount } of received) {
      const text = Buffer.from(messageText, "base64").toString();
      const metadata = { Id: { string: messageId }, DequeueCount: { json: String(dequeueCount) } };
      try {
        await worker.invoke(name, { string: text }, randomUUID(), metadata);
      } catch (error) {
        tell({ level: "error", category: "host", message: `${name} failed: ${error}` });
        await queue.updateMessage(messageId, popReceipt, messageText, 0);
        continue;
      }
      await queue.deleteMessage(messageId, popReceipt);
      tell({ level: "information", category: "host", message: `${name} took ${text}` });
    }
    if (received.length === 0) await sleep(50);
  }
}

/** The host has a connection string of its own, because the app may have only an identity, or a wrong key. */
const storageOf = (connection: string): string =>
  process.env.SCENARIO_HOST_STORAGE ?? process.env[connection]!;

for (const [name, { type, queueName, connection }] of worker.triggers) {
  if (type === "queueTrigger") void poll(name, String(queueName), storageOf(String(connection)));
}
process.once("SIGTERM", async () => {
  await worker.terminate();
  process.exit(0);
});
server.listen(0, "127.0.0.1", () => {
  const functions = Object.fromEntries(worker.triggers);
  tell({ listening: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, functions });
});
