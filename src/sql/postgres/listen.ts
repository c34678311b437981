import type { Client, ClientConfig } from "pg";
import { type Logger, type LoggerOption, loggerOf } from "../../base/logger.js";
import { safeReason } from "../../base/safe-reason.js";
import type { WakeUpSource } from "../../dispatch/worker.js";
import { InvalidArgumentError } from "../../errors.js";
import { refuseUnknown } from "../../queue/arguments.js";
import type { NotifyQueue } from "../dialect.js";
import { pgListener } from "./client.js";
import { connectionSettings } from "./entra.js";
import { channelOf, namesOf } from "./notify.js";

export interface WakeUpOptions extends NotifyQueue {
  /** The server itself: a connection through a pooler that shares connections between transactions cannot listen. */
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
 * createWorker({ dispatcher, store: outbox, wakeUp: wakeUpOnNotify({ url, kind: "outbox" }) });
 */
export function wakeUpOnNotify(options: WakeUpOptions): WakeUpSource {
  refuseUnknown(options, ["url", "config", "logger", "kind", "schema", "table"], "wakeUpOnNotify");
  if (options.url === undefined && options.config === undefined)
    throw new InvalidArgumentError("wakeUpOnNotify needs a url or a config.");
  if (options.kind !== "inbox" && options.kind !== "outbox")
    throw new InvalidArgumentError('wakeUpOnNotify: kind must be "inbox" or "outbox".');
  const config: ClientConfig = {
    connectionTimeoutMillis: 15_000,
    query_timeout: 15_000,
    keepAlive: true,
    ...options.config,
    ...connectionSettings(options.url),
  };
  return listener(config, channelOf(namesOf(options)), loggerOf(options.logger));
}

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
