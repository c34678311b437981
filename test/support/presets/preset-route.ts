import { createInbox } from "../../../src/inbox/inbox.js";
import { migrate } from "../../../src/sql/migrate.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { createWebhookRoute, type WebhookScheme } from "../../../src/webhooks/index.js";
import { type LogLine, recordingLogger } from "../../contract/support/recording-logger.js";
import type { PresetSample, ProviderEvent } from "./preset-sample.js";

/** The providers' clock and ours. */
export const now = new Date("2030-01-01T00:00:00Z");

export interface PresetRoute {
  readonly url: string;
  /** Sends an event with the sample's signature, changed by `change`. */
  deliver(event: ProviderEvent, options?: DeliverOptions): Promise<Response>;
  /** Sends a request as it is. */
  send(event: ProviderEvent): Promise<Response>;
  messages(): Promise<readonly StoredMessage[]>;
  /** Why the last request was refused. */
  reason(): unknown;
  /** The log's line of the last request: its outcome, and for a batch how many events have which outcome. */
  logged(): LogLine["fields"];
}

export interface DeliverOptions {
  readonly at?: Date;
  readonly secret?: string;
  readonly change?: (sent: ProviderEvent) => ProviderEvent;
}

export interface StoredMessage {
  readonly messageId: string;
  /** Without the source's name before it. */
  readonly topic: string;
  readonly tenant: string | undefined;
  readonly payload: string;
  readonly state: string;
}

/** Opens one database for all routes of a preset. Each route is a source of its own. */
export async function openPresetRoutes(name: string, preset: WebhookScheme, sample: PresetSample) {
  const db = openSqlite({ file: ":memory:" });
  await migrate(db);
  const inbox = createInbox(db);
  let opened = 0;

  const open = (secret = sample.secret, clock = now): PresetRoute => {
    const source = `${name.replace(/\W+/g, "-")}-${++opened}`;
    const url = `https://hooks.example.com/webhooks/${source}`;
    const logs: LogLine[] = [];
    const settings = { scheme: preset, secrets: secret, allowShortSecrets: true, ...sample.source };
    const route = createWebhookRoute({
      ...sample.route,
      inbox,
      sources: { [source]: settings },
      clock: () => clock,
      logger: recordingLogger(logs),
    });
    const send = (event: ProviderEvent) => route(requestOf(url, event));
    return {
      url,
      send,
      async deliver(event, { at = now, secret: by, change = unchanged } = {}) {
        const key = by ?? sample.signingSecret ?? sample.secret;
        return send(change(merged(event, await sample.sign(event, { at, url, secret: key }))));
      },
      async messages() {
        const { messages } = await inbox.list({ source, limit: 1_000 });
        const typeOf = (topic: string) =>
          topic.startsWith(`${source}.`) ? topic.slice(source.length + 1) : topic;
        return messages.map(({ messageId, topic, payload, state, headers }) => {
          return { messageId, topic: typeOf(topic), payload, state, tenant: headers?.["oncebox-tenant"] };
        });
      },
      reason: () => logs.at(-1)?.fields.reason,
      logged: () => logs.at(-1)!.fields,
    };
  };
  return { open, close: () => db.close() };
}

const unchanged = (sent: ProviderEvent): ProviderEvent => sent;

const merged = (event: ProviderEvent, signature: Partial<ProviderEvent>): ProviderEvent => ({
  ...event,
  ...signature,
  headers: { ...event.headers, ...signature.headers },
});

function requestOf(url: string, { method = "POST", headers, query, body }: ProviderEvent): Request {
  const target = query === undefined ? url : `${url}?${query}`;
  if (method !== "POST") return new Request(target, { method, headers: { ...headers } });
  return new Request(target, { method, body, headers: { "content-type": "application/json", ...headers } });
}
