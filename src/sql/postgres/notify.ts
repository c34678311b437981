import { createHash } from "node:crypto";
import type { Client, ClientConfig } from "pg";
import { type Logger, type LoggerOption, loggerOf, safeReason } from "../../base/logger.js";
import type { WakeUpSource } from "../../dispatch/worker.js";
import { InvalidArgumentError } from "../../errors.js";
import { refuseUnknown } from "../../queue/arguments.js";
import { type Database, type NotifyQueue, status } from "../dialect.js";
import { statement } from "../driver.js";
import { runBatches } from "../migrate.js";
import { literal, type QueueNames, requireIdentifier } from "../names.js";
import { pgListener } from "./client.js";
import { postgresDialect } from "./dialect.js";
import { connectionSettings } from "./entra.js";
import { sharesSessions } from "./pooler.js";

/** Options of a worker's wake-up by PostgreSQL. */
export interface WakeUpOptions extends NotifyQueue {
  /** Of the server itself, or of a pooler in session mode: a connection through one in transaction mode cannot listen. */
  readonly url?: string;
  /** Anything else `pg.Client` takes. */
  readonly config?: ClientConfig;
  readonly logger?: LoggerOption;
}

const firstRetryMs = 500;
const longestRetryMs = 30_000;
/** A connection that a firewall has dropped reports nothing, so a query is sent now and then. */
const heartbeatMs = 60_000;

/**
 * Wakes a worker as soon as a message is committed, after `enableNotify` on the queue. It has a connection of its own and
 * reconnects whenever that is lost. Meanwhile, and for messages that become due later, the worker polls as usual.
 *
 * @example
 * createWorker({ store: outbox, handlers, wakeUp: wakeUpOnNotify({ url, kind: "outbox" }) });
 */
export function wakeUpOnNotify(options: WakeUpOptions): WakeUpSource {
  refuseUnknown(options, ["url", "config", "logger", "kind", "schema", "table"], "wakeUpOnNotify");
  if (options.url === undefined && options.config === undefined)
    throw new InvalidArgumentError("wakeUpOnNotify needs a url or a config.");
  if (options.kind !== "inbox" && options.kind !== "outbox")
    throw new InvalidArgumentError('wakeUpOnNotify: kind must be "inbox" or "outbox".');
  return listener(clientSettings(options), channelOf(namesOf(options)), loggerOf(options.logger));
}

/** The settings of a connection outside of a pool. */
export const clientSettings = ({ url, config }: Pick<WakeUpOptions, "url" | "config">): ClientConfig => ({
  connectionTimeoutMillis: 15_000,
  query_timeout: 15_000,
  keepAlive: true,
  ...config,
  ...connectionSettings(url),
});

const listenAdvice =
  "The worker polls. Give wakeUpOnNotify the URL of the server itself, or of a pooler in session mode.";

/** One connection that listens on the channel, and is made again when it is lost. */
function listener(config: ClientConfig, channel: string, logger: Logger): WakeUpSource {
  return async (wake) => {
    let stopped = false;
    let client: Client | undefined;
    let retryMs = firstRetryMs;
    let retry: NodeJS.Timeout | undefined;

    const connect = async (): Promise<void> => {
      let own: Client | undefined;
      const lost = (error: unknown): void => {
        if (own !== undefined && own !== client) return; // its loss has been handled
        client = undefined;
        void own?.end().catch(() => {});
        if (stopped) return;
        logger.warn("listening was interrupted", { retryMs, error: safeReason(error) });
        retry = setTimeout(connect, retryMs * (0.5 + Math.random() / 2)).unref();
        retryMs = Math.min(retryMs * 2, longestRetryMs);
      };
      try {
        own = await pgListener(config);
        if (stopped) return;
        client = own;
        own.on("error", lost);
        own.on("end", () => lost(new Error("The server closed the connection.")));
        own.on("notification", wake);
        await own.connect();
        (own as Client & { unref(): void }).unref(); // in pg since 8.0, but not in its types
        if (await sharesSessions(own, config)) {
          logger.error("cannot listen through a pooler in transaction mode", { advice: listenAdvice });
          stopped = true;
          client = undefined;
          return await own.end();
        }
        await own.query(`listen "${channel}"`);
        retryMs = firstRetryMs;
        wake(); // for messages that came before it listened
      } catch (error) {
        lost(error);
      }
    };

    const heartbeat = setInterval(() => {
      const checked = client;
      checked?.query("select 1").catch((error) => checked.emit("error", error));
    }, heartbeatMs).unref();

    // Not awaited: a server that is away must not keep the worker from polling.
    const connecting = connect();
    return async () => {
      stopped = true;
      clearInterval(heartbeat);
      clearTimeout(retry);
      await client?.end().catch(() => {});
      await connecting;
    };
  };
}

export function namesOf({ kind, schema, table }: NotifyQueue): QueueNames {
  const { defaults, names } = postgresDialect;
  const chosen = { schema: schema ?? defaults.schema, table: table ?? defaults[kind] };
  requireIdentifier(chosen.schema, "schema");
  requireIdentifier(chosen.table, "table");
  return names(kind, chosen.schema, chosen.table);
}

/** A digest: a channel's name has at most 63 bytes, and schema and table together may have more. */
export function channelOf({ schema, table }: QueueNames): string {
  const digest = createHash("sha256")
    .update(JSON.stringify([schema, table]))
    .digest("hex");
  return `oncebox_${digest.slice(0, 16)}`;
}

/**
 * From now on every commit that makes a message claimable notifies the listening workers (`wakeUpOnNotify`), also when
 * other code wrote the message. Run it once, where you run `migrate`; it may be repeated.
 *
 * PostgreSQL lets only one notifying transaction commit at a time, in the whole server. That slows commits from about a
 * thousand a second on. With so many messages no wake-up is needed, because the workers never sleep.
 *
 * @example
 * await enableNotify(db, { kind: "outbox" });
 */
export async function enableNotify(db: Database, queue: NotifyQueue): Promise<void> {
  const n = namesOf(queue);
  await db.exclusively(n.schema, async (tx) => {
    await runBatches(tx, [createFunction(n)]);
    // One that exists stays: to make it anew would wait for all transactions on the table, and hold up those behind them.
    const existing = (await tx.query(triggers, { table: n.state })).map(({ name }) => String(name));
    const missing = Object.entries(createTriggers(n)).filter(
      ([suffix]) => !existing.includes(n.table + suffix),
    );
    await runBatches(
      tx,
      missing.map(([, create]) => create),
    );
  });
}

const triggers = statement(
  "triggers of a table",
  "select tgname::text as name from pg_trigger where tgrelid = to_regclass(:table)",
);

/** Notifications of one transaction that say the same are sent once. */
const createFunction = (n: QueueNames): string =>
  `create or replace function ${n.object("_notify")}() returns trigger
language plpgsql
as $notify$
begin
  perform pg_notify(${literal(channelOf(n))}, '');
  return null;
end
$notify$`;

const triggerSuffixes = ["_notify", "_notify_ready"] as const;

const createTriggers = (n: QueueNames): Readonly<Record<(typeof triggerSuffixes)[number], string>> => ({
  // Only for claimable messages: a duplicate changes nothing, and a message that is only Seen is never claimed.
  _notify: `create trigger ${n.bare("_notify")}
after insert on ${n.state}
for each row
when (new.status = ${status.ready})
execute function ${n.object("_notify")}()`,
  // For messages that become claimable later: a new head of a partition queue, a replayed dead letter, a message that
  // was only Seen. A claim does not change the status, so it does not call the trigger.
  _notify_ready: `create trigger ${n.bare("_notify_ready")}
after update of status on ${n.state}
for each row
when (new.status = ${status.ready} and old.status <> ${status.ready})
execute function ${n.object("_notify")}()`,
});

/** Removes the triggers again. */
export async function disableNotify(db: Database, queue: NotifyQueue): Promise<void> {
  const n = namesOf(queue);
  const drop = triggerSuffixes.map((suffix) => `drop trigger if exists ${n.bare(suffix)} on ${n.state}`);
  await db.exclusively(n.schema, (tx) =>
    runBatches(tx, [...drop, `drop function if exists ${n.object("_notify")}()`]),
  );
}
