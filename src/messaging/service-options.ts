import type { LoggerOption } from "../base/logger.js";
import type { Secrets } from "../base/secrets.js";
import type { Metrics, Tracing } from "../base/telemetry.js";
import type { WakeUpSource } from "../dispatch/worker.js";
import type { AdminSettings } from "../http/admin-access.js";
import type { BreakerPolicy } from "../publishers/circuit-breaker.js";
import { mostAttempts, type RetryPolicy } from "../queue/retry-policy.js";
import type { Database } from "../sql/dialect.js";
import type { TransportsOptions } from "./destinations.js";
import type { Combined, MessageDefinitions, Receivers, ResponseHandlers } from "./messages.js";
import type { SentMessage } from "./stored-message.js";
import type { TransportName } from "./transports/address.js";
import type { Transport } from "./transports/transport.js";

/** The wait before retry n, from 0 on: min(baseMs · 2^n, maxMs) + random(0, jitterMs). */
export interface RetryOptions {
  /** Retries after the first attempt, before the message is Failed: 5 by default. With `Infinity` it is sent until it expires. */
  readonly maxRetries: number;
  /** 2 s by default. */
  readonly baseMs: number;
  /** 5 min by default. */
  readonly maxMs: number;
  /** 500 ms by default. */
  readonly jitterMs: number;
}

export const defaultRetry: RetryOptions = {
  maxRetries: 5,
  baseMs: 2_000,
  maxMs: 5 * 60_000,
  jitterMs: 500,
};

/** The largest limit of retries beside `Infinity`. */
export const maxRetriesLimit = mostAttempts - 1;

/**
 * A retry policy counts from the first failed attempt on, so its base is half of ours. The service counts retries itself, because
 * each message may have its own limit.
 */
export const policyOf = ({ baseMs, maxMs, jitterMs }: RetryOptions): RetryPolicy => ({
  maxAttempts: Number.POSITIVE_INFINITY,
  baseMs: baseMs / 2,
  factor: 2,
  maxMs,
  jitterMs,
});

/** The longest time from the first attempt to the last retry: the sum of all waits. */
export function retryWindowMs({ maxRetries, baseMs, maxMs, jitterMs }: RetryOptions): number {
  let sum = 0;
  for (let n = 0; n < maxRetries; n++) sum += Math.min(baseMs * 2 ** n, maxMs) + jitterMs;
  return sum;
}

/** A service that messages are sent to. */
export interface DestinationOptions {
  /** Such as `https://host:port/_rf/receive` or `unix:///tmp/rf-inventory.sock`. */
  readonly address?: string;
  /** The first one signs messages to the destination. All of them verify messages from it. In-process delivery needs none. */
  readonly secrets?: readonly string[];
  /** By name, or a transport for this destination only. By default that of the address. */
  readonly transport?: TransportName | Transport;
  /** The endpoints of this service that the destination may call, as those of a source. None by default: it may only respond. */
  readonly endpoints?: Endpoints;
}

/** Names of messages, or `"*"` for all of them. */
export type Endpoints = readonly string[] | "*";

/** A service that messages are received from. */
export interface SourceOptions {
  readonly secrets: readonly string[];
  /** The endpoints that the source may call. Who has its secret can call no other. */
  readonly endpoints: Endpoints;
  /** The source's own longest time from a message's first attempt to its last retry, where it is not this service's. */
  readonly retryWindowMs?: number;
}

/** Who may see a service's diagnostics. */
export interface ServiceAdmin extends AdminSettings {
  /** All tokens that are valid at present, each `name:secret`, or functions that fetch them. The name is in the log. */
  readonly tokens: Secrets;
}

/** A message that will not be sent any more. It stays in the outbox: `retry` sends it again. */
export interface DeadMessage extends SentMessage {
  readonly state: "Failed" | "Expired";
  readonly payload: unknown;
}

/** Settings that a service has defaults for. */
export interface ServiceSettings {
  readonly retry: Partial<RetryOptions>;
  /** A message that is not delivered within this time is Expired: 24 h by default. */
  readonly ttlMs: number;
  /** The wait after a poll of the outbox that found nothing: 1 s by default. A service without destinations does not poll. */
  readonly pollMs: number;
  /**
   * The longest wait between polls of an outbox that stays empty: `pollMs` by default. With more, each wait is twice the one
   * before, up to this; minutes let a serverless database sleep. Messages of this process are sent at once all the same.
   */
  readonly idlePollMs: number;
  /** Messages in one claim: 50 by default. */
  readonly batchSize: number;
  /** Messages that are sent at once: 10 by default. */
  readonly concurrency: number;
  /** How long messages wait whose process was killed while it was sending them: 30 s by default. */
  readonly leaseMs: number;
  /** The longest time of one delivery: 30 s by default. */
  readonly timeoutMs: number;
  /** The longest time of a handler of an incoming message: 30 s by default. */
  readonly handlerTimeoutMs: number;
  /** How long Sent messages are kept: 7 days by default. */
  readonly sentRetentionMs: number;
  /** How long Failed and Expired messages are kept after their last attempt: for ever by default. At least `ttlMs`. */
  readonly failedRetentionMs: number;
  /** How long handled messages are remembered, to detect duplicates: 24 h by default. */
  readonly inboxRetentionMs: number;
  /** Between two clean-ups: 5 min by default. */
  readonly cleanupMs: number;
  /** Larger messages are refused: 1 MiB by default. */
  readonly maxBodyBytes: number;
  /** Larger responses are refused: 512 KiB by default. Return `responseReference(url)` instead. */
  readonly maxResponseBytes: number;
  /** How far the timestamp of a message may be from now: 5 min by default. */
  readonly toleranceMs: number;
  /** The receiver is at `POST {prefix}/receive`: `/_rf` by default. */
  readonly prefix: string;
  /** The tables are `{table}_outbox` and `{table}_inbox`: `messages` by default. */
  readonly table: string;
}

export const defaults: Omit<ServiceSettings, "retry"> & { readonly retry: RetryOptions } = {
  retry: defaultRetry,
  ttlMs: 24 * 60 * 60_000,
  pollMs: 1_000,
  idlePollMs: 1_000,
  batchSize: 50,
  concurrency: 10,
  leaseMs: 30_000,
  timeoutMs: 30_000,
  handlerTimeoutMs: 30_000,
  sentRetentionMs: 7 * 24 * 60 * 60_000,
  failedRetentionMs: Number.POSITIVE_INFINITY,
  inboxRetentionMs: 24 * 60 * 60_000,
  cleanupMs: 5 * 60_000,
  maxBodyBytes: 1_048_576,
  maxResponseBytes: 524_288,
  toleranceMs: 5 * 60_000,
  prefix: "/_rf",
  table: "messages",
};

/** Outbox and inbox on two databases. Then a handler cannot send: both could not commit at once. */
export interface SeparateDatabases {
  readonly outbox: Database;
  readonly inbox: Database;
  /**
   * The outboxes of the instances of this service that send to its other destinations. A response is accepted when its
   * command is in one of the outboxes.
   */
  readonly otherOutboxes?: readonly Database[];
}

/** Options of a service. */
export interface ServiceOptions<
  Messages extends MessageDefinitions | readonly MessageDefinitions[] = MessageDefinitions,
  Destination extends string = string,
> extends Partial<ServiceSettings> {
  /** The name by which other services know this one. */
  readonly serviceId: string;
  readonly db: Database | SeparateDatabases;
  /** One declaration or several. */
  readonly messages: Messages;
  /** The services that this one sends to, by their ids. */
  readonly destinations?: Readonly<Record<Destination, DestinationOptions>>;
  /** The services that may send to this one, beside the destinations. */
  readonly sources?: Readonly<Record<string, SourceOptions>>;
  /** Handlers of incoming messages. Each runs in the transaction that records its message as handled. */
  readonly receive?: Receivers<Combined<Messages>>;
  /** Handlers of the responses to commands that were sent with `send`. */
  readonly onResponse?: ResponseHandlers<Combined<Messages>>;
  /** Called for each message that fails or expires. */
  readonly onDead?: (message: DeadMessage, reason: DeadReason) => unknown;
  /** Settings of the transports, transports of your own, and the one of destinations that name none. */
  readonly transports?: TransportsOptions;
  /** The circuit breaker of each destination; `false` switches it off. */
  readonly breaker?: Partial<BreakerPolicy> | false;
  readonly schema?: string;
  /** Wakes the worker when another process or a caller's own transaction has committed a message. */
  readonly wakeUp?: WakeUpSource;
  /**
   * The same by PostgreSQL's NOTIFY: `init` adds the triggers and `start` listens. On by default for an outbox on PostgreSQL,
   * unless there is a `wakeUp`. With `false`, `init` removes the triggers: PostgreSQL lets notifying transactions commit only
   * one at a time, which slows commits from about a thousand a second on.
   */
  readonly notify?: boolean;
  /** Opens the diagnostics at `{prefix}/health`, `/outbox/stats` and so on for these tokens. Without it they are closed. */
  readonly admin?: ServiceAdmin;
  readonly logger?: LoggerOption;
  readonly metrics?: Metrics;
  readonly tracing?: Tracing;
  /** For tests: the time instead of the database's. */
  readonly clock?: () => Date;
}

/** Why a message of a service is dead. */
export interface DeadReason {
  readonly state: DeadMessage["state"];
  readonly error: string;
}

export const knownOptions = [
  ...Object.keys(defaults),
  "serviceId",
  "db",
  "messages",
  "destinations",
  "sources",
  "receive",
  "onResponse",
  "onDead",
  "transports",
  "breaker",
  "schema",
  "wakeUp",
  "notify",
  "admin",
  "logger",
  "metrics",
  "tracing",
  "clock",
];

/** The options with the generics forgotten: what the parts of a service work with. */
export type AnyServiceOptions = Omit<ServiceOptions, "messages" | "receive" | "onResponse"> & {
  readonly messages: MessageDefinitions | readonly MessageDefinitions[];
  readonly receive?: Readonly<Record<string, AnyHandler>>;
  readonly onResponse?: Readonly<Record<string, AnyHandler>>;
};

/** A handler of any message. Its payload was validated by the schema that its type is made of. */
export type AnyHandler = (payload: unknown, context: unknown) => unknown;

export type Settings = typeof defaults;

export const settingsOf = (options: AnyServiceOptions): Settings => {
  const given = Object.fromEntries(
    Object.keys(defaults)
      .map((name) => [name, options[name as keyof Settings]])
      .filter(([, value]) => value !== undefined),
  );
  const { pollMs: idlePollMs = defaults.idlePollMs } = options;
  return { ...defaults, idlePollMs, ...given, retry: { ...defaultRetry, ...options.retry } };
};

/** The handler of an endpoint. Not what every object inherits: an endpoint may be named `toString`. */
export const handlerFor = (
  handlers: Readonly<Record<string, AnyHandler>> | undefined,
  endpoint: string,
): AnyHandler | undefined =>
  handlers !== undefined && Object.hasOwn(handlers, endpoint) ? handlers[endpoint] : undefined;
