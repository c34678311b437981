import { longestTimerMs } from "../base/timers.js";
import { InvalidArgumentError } from "../errors.js";
import {
  optionalCount,
  problemOf,
  refuseUnknown,
  requireBatchSize,
  requireDuration,
  requireName,
} from "../queue/arguments.js";
import { retryPolicy } from "../queue/retry-policy.js";
import type { StandardSchema } from "../queue/standard-schema.js";
import type { Database } from "../sql/dialect.js";
import { requireIdentifier } from "../sql/names.js";
import type { MessageDefinition, MessageDefinitions } from "./messages.js";
import {
  type AnyServiceOptions,
  defaultRetry,
  knownOptions,
  mostRetries,
  policyOf,
  retryWindowMs,
  type SeparateDatabases,
  settingsOf,
} from "./service-options.js";

/** Throws one error with all problems of a service's options. `destinations` are those of its destinations and sources. */
export function checkService(options: AnyServiceOptions, destinations: readonly string[]): void {
  const problems = [
    ...problemOf(() => refuseUnknown(options, knownOptions, "options")),
    ...serviceIdProblem(options.serviceId, "serviceId"),
    ...checkDatabases(options.db),
    ...checkMessages(options),
    ...destinations,
    ...checkFunctions(options),
    ...checkNotify(options),
    ...checkTimes(options),
  ];
  if (problems.length === 0) return;
  const name = typeof options.serviceId === "string" ? ` "${options.serviceId}"` : "";
  throw new InvalidArgumentError(
    `The service${name} cannot be created:\n${problems.map((problem) => `- ${problem}`).join("\n")}`,
  );
}

function checkDatabases(db: AnyServiceOptions["db"]): readonly string[] {
  const isDatabase = (value: unknown): boolean =>
    typeof (value as { driver?: { transaction?: unknown } } | null | undefined)?.driver?.transaction ===
    "function";
  if (isDatabase(db)) return [];
  const { outbox, inbox, otherOutboxes = [] } = (db ?? {}) as Partial<SeparateDatabases>;
  const isList = Array.isArray(otherOutboxes) && otherOutboxes.every(isDatabase);
  if (isDatabase(outbox) && isDatabase(inbox))
    return isList ? [] : ["db.otherOutboxes must be a list of databases"];
  return ["db must be a database, such as openSqlite(…), or { outbox, inbox } with two of them"];
}

function checkFunctions(options: AnyServiceOptions): readonly string[] {
  return (["onDead", "wakeUp", "clock"] as const)
    .filter((name) => options[name] !== undefined && typeof options[name] !== "function")
    .map((name) => `${name} must be a function`);
}

function checkNotify({ notify, wakeUp, db }: AnyServiceOptions): readonly string[] {
  if (notify === undefined || notify === false) return [];
  if (notify !== true) return ["notify must be true or false"];
  const { notifications } = outboxDatabase(db) ?? {};
  return [
    ...(notifications === undefined
      ? ["notify needs an outbox on PostgreSQL; give a wakeUp instead, or neither"]
      : []),
    ...(wakeUp === undefined ? [] : ["give notify or wakeUp, not both"]),
  ];
}

const outboxDatabase = (db: AnyServiceOptions["db"] | undefined): Database | undefined =>
  db === undefined || db === null || "driver" in db ? (db ?? undefined) : db.outbox;

const listOf = (messages: AnyServiceOptions["messages"]): readonly MessageDefinitions[] =>
  Array.isArray(messages) ? (messages as readonly MessageDefinitions[]) : [messages as MessageDefinitions];

/** All declarations as one. Of two with the same name the last one counts; `checkMessages` refuses them. */
export const combinedMessages = (
  messages: AnyServiceOptions["messages"],
): ReadonlyMap<string, MessageDefinition> =>
  new Map(listOf(messages).flatMap((one) => Object.entries(one ?? {})));

/** Problems of the declarations and of the handlers for them. */
function checkMessages(options: AnyServiceOptions): readonly string[] {
  const all = listOf(options.messages);
  if (all.some((one) => typeof one !== "object" || one === null))
    return ["messages must be what defineMessages(…) returns, or a list of that"];
  const messages = combinedMessages(options.messages);
  return [
    ...duplicates(all),
    ...[...messages].flatMap(([name, definition]) => checkDefinition(name, definition)),
    ...checkHandlers(options, messages),
  ];
}

function duplicates(all: readonly MessageDefinitions[]): readonly string[] {
  const seen = new Set<string>();
  const twice = new Set<string>();
  for (const name of all.flatMap((one) => Object.keys(one))) {
    if (seen.has(name)) twice.add(name);
    seen.add(name);
  }
  return [...twice].map((name) => `the endpoint "${name}" is declared twice; endpoint names are unique`);
}

function checkDefinition(name: string, definition: MessageDefinition): readonly string[] {
  const unnamed = problemOf(() => requireName(name, `the endpoint "${name}"`));
  const schemas = schemasOf(definition);
  if (schemas === undefined)
    return [...unnamed, `messages.${name} must be made by signal(…), command(…) or pushCall(…)`];
  return [
    ...unnamed,
    ...schemas.flatMap(([part, schema]) => checkSchema(`${part} of "${name}"`, schema, definition.takesJson)),
  ];
}

function schemasOf(
  definition: MessageDefinition,
): readonly (readonly [string, StandardSchema])[] | undefined {
  switch (definition?.messageType) {
    case "Signal":
      return [["payload", definition.payload]];
    case "Command":
      return [
        ["payload", definition.payload],
        ["response", definition.response],
      ];
    case "PushCall":
      return [
        ["input", definition.input],
        ["output", definition.output],
      ];
    default:
      return undefined;
  }
}

/** The part of Standard JSON Schema that is used. Not every schema has it. */
interface DescribesItself {
  readonly jsonSchema?: { readonly input?: (options: { readonly target: string }) => unknown };
}

/** A schema that can describe itself in JSON Schema, and fails to, takes something that is not JSON. */
function checkSchema(what: string, schema: StandardSchema, takesJson: boolean): readonly string[] {
  const standard = schema?.["~standard"] as (StandardSchema["~standard"] & DescribesItself) | undefined;
  if (typeof standard?.validate !== "function")
    return [`the schema for the ${what} must be a Standard Schema, such as one of zod or valibot`];
  if (takesJson) return [];
  try {
    standard.jsonSchema?.input?.({ target: "draft-2020-12" });
    return [];
  } catch (error) {
    const reason = (error as Error).message.replace(/\.$/, "");
    return [
      `the schema for the ${what} cannot be sent as JSON: ${reason}. Where it does take JSON, say { takesJson: true }`,
    ];
  }
}

function checkHandlers(
  { receive, onResponse, destinations }: AnyServiceOptions,
  messages: ReadonlyMap<string, MessageDefinition>,
): readonly string[] {
  const known = [...messages.keys()].join(", ");
  const check = (option: string, handlers: object | undefined) =>
    Object.entries(handlers ?? {}).flatMap(([name, handler]) => {
      if (!messages.has(name)) return [`${option}.${name}: no such message. Known: ${known}`];
      return typeof handler === "function" ? [] : [`${option}.${name} must be a function`];
    });
  const noCommands = Object.keys(onResponse ?? {})
    .filter((name) => messages.has(name) && messages.get(name)?.messageType !== "Command")
    .map((name) => `onResponse.${name}: only a command has a response`);
  // Without a destination the service can only receive, so nobody else can be meant to handle the command.
  const unhandled = [...messages]
    .filter(([name, { messageType }]) => messageType === "Command" && !Object.hasOwn(receive ?? {}, name))
    .filter(() => Object.keys(destinations ?? {}).length === 0)
    .map(
      ([name]) =>
        `the command "${name}" has no handler in receive, and no destination that it could be sent to. Handle it, or leave it out of messages, which may be a list of declarations`,
    );
  return [...check("receive", receive), ...check("onResponse", onResponse), ...noCommands, ...unhandled];
}

/** A service's id is the first part of a topic, so it has no slash. */
export function serviceIdProblem(id: unknown, name: string): readonly string[] {
  const problem = problemOf(() => requireName(id, name));
  if (problem.length > 0 || !(id as string).includes("/")) return problem;
  return [`${name} must not contain "/"`];
}

const durations = [
  "ttlMs",
  "pollMs",
  "idlePollMs",
  "leaseMs",
  "timeoutMs",
  "handlerTimeoutMs",
  "sentRetentionMs",
  "inboxRetentionMs",
  "cleanupMs",
  "toleranceMs",
] as const;

/** Those that a timer waits for. */
const timers = ["pollMs", "idlePollMs", "timeoutMs", "handlerTimeoutMs", "cleanupMs"] as const;

/** Problems of times, limits and retries. */
function checkTimes(options: AnyServiceOptions): readonly string[] {
  const settings = settingsOf(options);
  const { retry } = settings;
  const problems = [
    ...durations.flatMap((name) => problemOf(() => requireDuration(settings[name], name))),
    ...(settings.failedRetentionMs === Number.POSITIVE_INFINITY
      ? []
      : problemOf(() => requireDuration(settings.failedRetentionMs, "failedRetentionMs"))),
    ...timers
      .filter((name) => settings[name] > longestTimerMs)
      .map((name) => `${name} must be at most ${longestTimerMs} ms, not ${settings[name]}`),
    ...problemOf(() => requireBatchSize(settings.batchSize)),
    ...(["concurrency", "maxBodyBytes", "maxResponseBytes"] as const).flatMap((name) =>
      problemOf(() => optionalCount(settings[name], name, 1)),
    ),
    ...problemOf(() => refuseUnknown(options.retry ?? {}, Object.keys(defaultRetry), "retry")),
    ...problemOf(() => retryPolicy(policyOf(retry))),
    ...problemOf(() => optionalCount(retry.maxRetries, "retry.maxRetries", 0)),
    ...(retry.maxRetries > mostRetries ? [`retry.maxRetries must be at most ${mostRetries}`] : []),
    ...problemOf(() => {
      requireIdentifier(settings.table, "table");
      requireIdentifier(`${settings.table}_outbox`, `"${settings.table}_outbox", the name of a table,`);
    }),
    ...(/^(\/[\w.~-]+)*$/.test(settings.prefix) ? [] : ['prefix must be a path, such as "/_rf"']),
  ];
  return problems.length > 0 ? problems : checkRetention(options);
}

/**
 * A message that arrives after its record was deleted would be handled twice. A sender sends until the last retry; while
 * a circuit breaker is open, it waits without using up retries, at most until the message expires.
 */
function checkRetention(options: AnyServiceOptions): readonly string[] {
  const { inboxRetentionMs, failedRetentionMs, ttlMs, toleranceMs, retry } = settingsOf(options);
  const windows = [
    ["the retry window", retryWindowMs(retry)] as const,
    ...Object.entries(options.sources ?? {}).flatMap(([id, source]) =>
      source?.retryWindowMs === undefined
        ? []
        : [[`the retry window of the source "${id}"`, source.retryWindowMs] as const],
    ),
  ];
  const tooShort = windows
    .filter(([, windowMs]) => !(inboxRetentionMs >= 2 * windowMs))
    .map(
      ([what, windowMs]) =>
        `inboxRetentionMs must be at least twice ${what}, which is ${windowMs} ms: at least ${2 * windowMs}, not ${inboxRetentionMs}`,
    );
  const failedTooShort =
    failedRetentionMs >= ttlMs
      ? []
      : [
          `failedRetentionMs must be at least ttlMs (${ttlMs}), not ${failedRetentionMs}: a Failed message would be deleted before it is told as Expired`,
        ];
  const belowTtl =
    inboxRetentionMs >= ttlMs
      ? []
      : [
          `inboxRetentionMs must be at least ttlMs (${ttlMs}), not ${inboxRetentionMs}: a message may be sent until it expires`,
        ];
  // One that is signed by a clock as fast as is allowed can be replayed until that clock's time and the tolerance are over.
  const belowTolerance =
    inboxRetentionMs >= 2 * toleranceMs
      ? []
      : [
          `inboxRetentionMs must be at least twice toleranceMs: at least ${2 * toleranceMs}, not ${inboxRetentionMs}, or a message could be replayed when it is forgotten`,
        ];
  return [...tooShort, ...belowTtl, ...belowTolerance, ...failedTooShort];
}
