import { z } from "zod";
import { createAdmin } from "../../../src/admin/create-admin.js";
import { adminRoutes } from "../../../src/admin/routes.js";
import { pathBehindBase } from "../../../src/admin/routing.js";
import type { Logger } from "../../../src/base/logger.js";
import { uuidV7 } from "../../../src/base/uuid.js";
import type { PlainRoute } from "../../../src/http/plain.js";
import { createInbox } from "../../../src/inbox/inbox.js";
import { callsOf } from "../../../src/inbox-store/http/calls.js";
import { createInboxService } from "../../../src/inbox-store/http/inbox-service.js";
import { createSqlInboxStore } from "../../../src/inbox-store/sql-inbox-store.js";
import { createService, defineMessages, signal, signEnvelope } from "../../../src/messaging/index.js";
import { diagnosticPaths } from "../../../src/messaging/receiver.js";
import { createOutbox } from "../../../src/outbox/outbox.js";
import { migrate } from "../../../src/sql/migrate.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";

export const adminTokens = { alice: "alice:test-secret-0123456789", bob: "bob:other-secret-0123456789" };
export const serviceToken = "service-token-0123456789";
export const secretOf = (byte: number): string => Buffer.alloc(24, byte).toString("base64");

export interface ApiRoute {
  readonly method: string;
  readonly path: string;
  readonly body?: string;
  /** Whether it needs no token: its answer is the same for everyone. */
  readonly isPublic?: boolean;
}

export interface HttpApi {
  readonly name: string;
  readonly respond: PlainRoute;
  readonly routes: readonly ApiRoute[];
  /** The authorization header that it accepts. Undefined where the body proves the sender. */
  readonly right?: string;
}

/** `{name}` in a path is filled in: only the form of a route is attacked. */
const filled = (path: string): string => path.replace(/\{\w+\}/g, "0190a5c2-7d3e-7b1a-9c4f-2e8d6a1b3c5d");

/** All HTTP APIs, on one database. Their routes come from their own tables, so that a new route is attacked too. */
export async function openHttpApis(logger: Logger) {
  const db = openSqlite({ file: ":memory:" });
  await migrate(db);
  const stores = { inbox: createInbox(db), outbox: createOutbox(db) };
  const clock = { ms: 0 };
  const tokens = Object.values(adminTokens);
  const admin = createAdmin({ stores, tokens, logger, clock: () => new Date(clock.ms) });
  const store = createSqlInboxStore(db);
  const service = createInboxService({
    store,
    tokens: serviceToken,
    logger,
    clock: () => new Date(clock.ms),
  });
  const open = createInboxService({ store, auth: "none", logger });
  const messaging = createService({
    serviceId: "inventory",
    db,
    messages: defineMessages({ OrderApproved: signal(z.object({ orderId: z.string() })) }),
    sources: {
      orders: { secrets: [secretOf(1)], endpoints: "*" },
      billing: { secrets: [secretOf(2)], endpoints: "*" },
    },
    receive: { OrderApproved: () => {} },
    admin: { tokens },
    clock: () => new Date(clock.ms),
    logger,
  });
  await messaging.init();

  const adminTable = adminRoutes({ stores, tokens }).map(({ method, path }) => ({
    method,
    path: filled(path),
  }));
  const adminAt = (base: string): readonly ApiRoute[] =>
    adminTable
      .map(({ method, path }) => ({ method, path: `${base}${path}`, isPublic: path === "health" }))
      .filter(({ path }) => pathBehindBase(path) !== undefined);
  const calls = Object.keys(callsOf({ minLeaseSeconds: 30, maxLeaseSeconds: 120 }));
  const serviceRoutes: readonly ApiRoute[] = [
    ...calls.map((name) => ({ method: "POST", path: `/v1/inbox/${name}`, body: '{"key":"a"}' })),
    { method: "GET", path: "/v1/inbox/a" },
    { method: "HEAD", path: "/v1/inbox/a" },
  ];
  const bearer = (token: string) => `Bearer ${token}`;
  const apis: readonly HttpApi[] = [
    {
      name: "diagnostics",
      respond: admin.respond,
      routes: adminAt("/_oncebox/"),
      right: bearer(adminTokens.alice),
    },
    {
      name: "diagnostics of a messaging service",
      respond: messaging.receiver.respond,
      routes: diagnosticPaths.map(({ method, path }) => ({
        method,
        path: `/_rf/${filled(path)}`,
        isPublic: path === "health",
      })),
      right: bearer(adminTokens.alice),
    },
    { name: "inbox service", respond: service.respond, routes: serviceRoutes, right: bearer(serviceToken) },
    {
      name: "messaging receiver",
      respond: messaging.receiver.respond,
      routes: [{ method: "POST", path: "/_rf/receive" }],
    },
  ];
  return {
    db,
    clock,
    apis,
    messaging,
    open: { name: "open inbox service", respond: open.respond, routes: serviceRoutes },
    async close() {
      await messaging.close();
      await db.close();
    },
  };
}

export const envelope = (fields: object = {}) => ({
  messageId: uuidV7(),
  correlationId: null,
  sourceServiceId: "orders",
  messageType: "Signal" as const,
  endpoint: "OrderApproved",
  payload: { orderId: "7" },
  headers: {},
  ...fields,
});

export const signedBody = (
  fields: object = {},
  { secret = secretOf(1), destination = "inventory", now = new Date() } = {},
): string => signEnvelope(envelope(fields), { destination, secrets: [secret], now });

/** Calls a route as a host would. */
export const call = (
  { respond }: Pick<HttpApi, "respond">,
  { method, path, body }: ApiRoute,
  headers: Readonly<Record<string, string>> = {},
) => {
  const given = new Map(Object.entries(headers));
  const bytes = body === undefined ? null : Buffer.from(body);
  return respond({
    method,
    url: `http://127.0.0.1${path}`,
    path: path.split("?", 1)[0]!,
    headers: { get: (name) => given.get(name) ?? null },
    body: bytes,
    client: "192.0.2.1",
  });
};
