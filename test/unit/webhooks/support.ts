import { afterEach } from "vitest";
import type { MetricAttributes } from "../../../src/base/telemetry.js";
import { createInbox, type Inbox } from "../../../src/inbox/inbox.js";
import type { InboxMessage } from "../../../src/queue/message.js";
import { migrate } from "../../../src/sql/migrate.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import {
  createWebhookRoute,
  signWebhook,
  type WebhookRoute,
  type WebhookRouteOptions,
  type WebhookScheme,
} from "../../../src/webhooks/index.js";
import { type LogLine, recordingLogger } from "../../contract/support/recording-logger.js";
import { type SchemeName, schemes } from "../../support/presets/schemes.js";

/** All the tests' times are around this one. */
export const now = new Date("2030-01-01T00:00:00Z");
export const secondsOf = (date: Date): number => Math.floor(date.getTime() / 1_000);

export interface Reception {
  readonly route: WebhookRoute;
  readonly inbox: Inbox;
  readonly logs: readonly LogLine[];
  readonly counts: readonly { readonly name: string; readonly attributes: MetricAttributes }[];
  /** All messages that are stored. */
  messages(): Promise<readonly InboxMessage[]>;
}

const opened: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0)) await close();
});

/** The route over an inbox on a database of its own, closed after the test. */
export async function reception(options: Omit<WebhookRouteOptions, "inbox">): Promise<Reception> {
  const db = openSqlite({ file: ":memory:" });
  opened.push(() => db.close());
  await migrate(db);
  const inbox = createInbox(db);
  const logs: LogLine[] = [];
  const counts: Reception["counts"][number][] = [];
  const route = createWebhookRoute({
    inbox,
    clock: () => now,
    logger: recordingLogger(logs),
    metrics: { count: (name, _, attributes) => counts.push({ name, attributes }), duration: () => {} },
    ...options,
    sources: withShortSecrets(options.sources),
  });
  return { route, inbox, logs, counts, messages: async () => (await inbox.list()).messages };
}

/** The tests' secrets are short, so that they can be read. */
export const withShortSecrets = <Source extends object>(sources: Readonly<Record<string, Source>>) =>
  Object.fromEntries(
    Object.entries(sources).map(([name, source]) => [name, { allowShortSecrets: true, ...source }]),
  );

export const address = (source: string): string => `https://hooks.example.com/webhooks/${source}`;

export interface Post {
  readonly body: string | Uint8Array;
  readonly headers?: Record<string, string>;
  readonly url?: string;
}

/** A POST of JSON, unless its headers say otherwise. */
export const post = (source: string, { body, headers, url = address(source) }: Post): Request =>
  new Request(url, {
    method: "POST",
    body: body as string,
    headers: { "content-type": "application/json", ...headers },
  });

export interface Signing {
  readonly secrets: string | readonly string[];
  readonly body?: string | Uint8Array;
  readonly messageId?: string;
  readonly topic?: string;
  readonly headers?: Record<string, string>;
  readonly timestamp?: Date;
  readonly url?: string;
}

/** A signed delivery to the source of the scheme's name (or the named one). */
export function signed(
  scheme: SchemeName | WebhookScheme,
  { body = '{"id":"evt_1","type":"ping"}', url, ...options }: Signing,
  source = typeof scheme === "string" ? scheme : "custom",
): Request {
  const own = typeof scheme === "string" ? schemes[scheme] : scheme;
  const request = signWebhook(own, { timestamp: now, ...options, body, url: url ?? address(source) });
  return new Request(request.url, request as RequestInit);
}

/** The same request with some headers changed, or taken out. */
export function altered(request: Request, headers: Record<string, string | null>, body?: string): Request {
  const changed = new Headers(request.headers);
  for (const [name, value] of Object.entries(headers)) {
    if (value === null) changed.delete(name);
    else changed.set(name, value);
  }
  return new Request(request.url, {
    method: "POST",
    headers: changed,
    body: body ?? request.body,
    duplex: "half",
  });
}
