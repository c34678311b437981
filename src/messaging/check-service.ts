import { longestTimerMs } from "../base/async.js";
import { InvalidArgumentError } from "../errors.js";
import { adminDefaults, adminTokens, checkAdminSettings } from "../http/admin-access.js";
import { checkTokens } from "../http/bearer-tokens.js";
import {
  optionalCount,
  optionalLimit,
  problemOf,
  refuseUnknown,
  requireBatchSize,
  requireDuration,
  requireName,
} from "../queue/arguments.js";
import { retryPolicy } from "../queue/retry-policy.js";
import type { StandardSchema } from "../queue/standard-schema.js";
import { requireIdentifier } from "../sql/names.js";
import { serviceDestinations } from "./destinations.js";
import { combinedMessages, declarationsOf, type MessageDefinition } from "./messages.js";
import {
  type AnyServiceOptions,
  defaultRetry,
  knownOptions,
  maxRetriesLimit,
  policyOf,
  retryWindowMs,
  type SeparateDatabases,
  type Settings,
  settingsOf,
} from "./service-options.js";

/** Throws one error with all problems of a service's options. Returns its destinations. */
export function checkService(options: AnyServiceOptions): ReturnType<typeof serviceDestinations> {
  const problems = new Problems();
  problems.check(() => refuseUnknown(options, knownOptions, "options"));
  problems.checkServiceId(options.serviceId, "serviceId");
  checkDatabases(options.db, problems);
  checkMessages(options, problems);
  const destinations = serviceDestinations(options, problems);
  for (const name of ["onDead", "wakeUp", "clock"] as const)
    problems.unless(
      options[name] === undefined || typeof options[name] === "function",
      `${name} must be a function`,
    );
  checkNotify(options, problems);
  checkAdmin(options, problems);
  checkSettings(options, problems);
  if (problems.all.length === 0) return destinations;
  const name = typeof options.serviceId === "string" ? ` "${options.serviceId}"` : "";
  throw new InvalidArgumentError(
    `The service${name} cannot be created:\n${problems.all.map((problem) => `- ${problem}`).join("\n")}`,
  );
}

/** The problems of a service's options, to be in one error. */
export class Problems {
  readonly all: string[] = [];

  add(...problems: readonly string[]): void {
    this.all.push(...problems);
  }

  unless(isRight: boolean, problem: string): void {
    if (!isRight) this.add(problem);
  }

  /** Adds the text of the error that a check throws. */
  check(check: () => void, prefix = ""): void {
    this.add(...problemOf(check).map((problem) => prefix + problem));
  }

  /** A service's id is the first part of a topic, so it has no slash. */
  checkServiceId(id: unknown, name: string): void {
    this.check(() => {
      requireName(id, name);
      if (id.includes("/")) throw new InvalidArgumentError(`${name} must not contain "/"`);
    });
  }
}

function checkDatabases(db: AnyServiceOptions["db"], problems: Problems): void {
  const isDatabase = (value: unknown): boolean =>
    typeof (value as { driver?: { transaction?: unknown } } | null | undefined)?.driver?.transaction ===
    "function";
  if (isDatabase(db)) return;
  const { outbox, inbox, otherOutboxes = [] } = (db ?? {}) as Partial<SeparateDatabases>;
  problems.unless(
    isDatabase(outbox) && isDatabase(inbox),
    "db must be a database, such as openSqlite(…), or { outbox, inbox } with two of them",
  );
  problems.unless(
    Array.isArray(otherOutboxes) && otherOutboxes.every(isDatabase),
    "db.otherOutboxes must be a list of databases",
  );
}

function checkNotify({ notify = false, wakeUp, db }: AnyServiceOptions, problems: Problems): void {
  problems.unless(typeof notify === "boolean", "notify must be true or false");
  if (notify !== true) return;
  const outbox = db && ("driver" in db ? db : db.outbox);
  problems.unless(
    outbox?.notifications !== undefined,
    "notify needs an outbox on PostgreSQL; give a wakeUp instead, or neither",
  );
  problems.unless(wakeUp === undefined, "give notify or wakeUp, not both");
}

function checkAdmin({ admin }: AnyServiceOptions, problems: Problems): void {
  if (admin === undefined) return;
  problems.check(() => {
    refuseUnknown(admin, ["tokens", ...Object.keys(adminDefaults)], "admin");
    const { tokens = "", ...settings } = admin;
    checkAdminSettings(settings);
    checkTokens(tokens, adminTokens);
  });
}

/** Problems of the declarations and of the handlers for them. */
function checkMessages(options: AnyServiceOptions, problems: Problems): void {
  const all = declarationsOf(options.messages);
  if (all.some((one) => typeof one !== "object" || one === null)) {
    problems.add("messages must be what defineMessages(…) returns, or a list of that");
    return;
  }
  const names = all.flatMap((one) => Object.keys(one));
  for (const name of new Set(names.filter((one, index) => names.indexOf(one) !== index)))
    problems.add(`the endpoint "${name}" is declared twice; endpoint names are unique`);
  const messages = combinedMessages(options.messages);
  for (const [name, definition] of messages) {
    problems.check(() => requireName(name, `the endpoint "${name}"`));
    const schemas = Object.entries(schemasOf(definition));
    if (schemas.length === 0)
      problems.add(`messages.${name} must be made by signal(…), command(…) or pushCall(…)`);
    for (const [part, schema] of schemas)
      problems.check(() => checkSchema(`${part} of "${name}"`, schema, definition.takesJson));
  }
  checkHandlers(options, messages, problems);
}

function schemasOf(definition: MessageDefinition): Readonly<Record<string, StandardSchema>> {
  switch (definition?.messageType) {
    case "Signal":
      return { payload: definition.payload };
    case "Command":
      return { payload: definition.payload, response: definition.response };
    case "PushCall":
      return { input: definition.input, output: definition.output };
    default:
      return {};
  }
}

/** The part of Standard JSON Schema that is used. Not every schema has it. */
interface DescribesItself {
  readonly jsonSchema?: { readonly input?: (options: { readonly target: string }) => unknown };
}

/** A schema that can describe itself in JSON Schema, and fails to, takes something that is not JSON. */
function checkSchema(what: string, schema: StandardSchema, takesJson: boolean): void {
  const standard = schema?.["~standard"] as (StandardSchema["~standard"] & DescribesItself) | undefined;
  if (typeof standard?.validate !== "function")
    throw new InvalidArgumentError(
      `the schema for the ${what} must be a Standard Schema, such as one of zod or valibot`,
    );
  if (takesJson) return;
  const [reason] = problemOf(() => void standard.jsonSchema?.input?.({ target: "draft-2020-12" }));
  if (reason !== undefined)
    throw new InvalidArgumentError(
      `the schema for the ${what} cannot be sent as JSON: ${reason}. Where it does take JSON, say { takesJson: true }`,
    );
}

function checkHandlers(
  { receive, onResponse, destinations }: AnyServiceOptions,
  messages: ReadonlyMap<string, MessageDefinition>,
  problems: Problems,
): void {
  const known = [...messages.keys()].join(", ");
  for (const [option, handlers] of Object.entries({ receive, onResponse }))
    for (const [name, handler] of Object.entries(handlers ?? {})) {
      if (!messages.has(name)) problems.add(`${option}.${name}: no such message. Known: ${known}`);
      else problems.unless(typeof handler === "function", `${option}.${name} must be a function`);
    }
  for (const name of Object.keys(onResponse ?? {}).filter((one) => messages.has(one)))
    problems.unless(
      messages.get(name)?.messageType === "Command",
      `onResponse.${name}: only a command has a response`,
    );
  // Without a destination the service can only receive, so nobody else can be meant to handle the command.
  if (Object.keys(destinations ?? {}).length > 0) return;
  for (const [name, { messageType }] of messages)
    problems.unless(
      messageType !== "Command" || Object.hasOwn(receive ?? {}, name),
      `the command "${name}" has no handler in receive, and no destination that it could be sent to. Handle it, or leave it out of messages, which may be a list of declarations`,
    );
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

/** Problems of times, limits, retries and names. */
function checkSettings(options: AnyServiceOptions, problems: Problems): void {
  const settings = settingsOf(options);
  const { retry, table, failedRetentionMs } = settings;
  const found = problems.all.length;
  for (const name of durations) problems.check(() => requireDuration(settings[name], name));
  if (failedRetentionMs !== Number.POSITIVE_INFINITY)
    problems.check(() => requireDuration(failedRetentionMs, "failedRetentionMs"));
  for (const name of timers)
    problems.unless(
      !(settings[name] > longestTimerMs),
      `${name} must be at most ${longestTimerMs} ms, not ${settings[name]}`,
    );
  problems.check(() => requireBatchSize(settings.batchSize));
  for (const name of ["concurrency", "maxBodyBytes", "maxResponseBytes"] as const)
    problems.check(() => optionalCount(settings[name], name, 1));
  problems.check(() => refuseUnknown(options.retry ?? {}, Object.keys(defaultRetry), "retry"));
  problems.check(() => void retryPolicy(policyOf(retry)));
  problems.check(() => optionalLimit(retry.maxRetries, "retry.maxRetries", 0, maxRetriesLimit));
  problems.check(() => {
    requireIdentifier(table, "table");
    requireIdentifier(`${table}_outbox`, `"${table}_outbox", the name of a table,`);
  });
  problems.unless(/^(\/[\w.~-]+)*$/.test(settings.prefix), 'prefix must be a path, such as "/_rf"');
  if (problems.all.length === found) checkRetention(settings, options.sources ?? {}, problems);
}

/**
 * A message that arrives after its record was deleted would be handled twice. A sender sends until the last retry; while
 * a circuit breaker is open, it waits without using up retries, at most until the message expires.
 */
function checkRetention(
  { inboxRetentionMs, failedRetentionMs, ttlMs, toleranceMs, retry }: Settings,
  sources: NonNullable<AnyServiceOptions["sources"]>,
  problems: Problems,
): void {
  const checkWindow = (what: string, windowMs: number): void =>
    problems.unless(
      inboxRetentionMs >= 2 * windowMs,
      `inboxRetentionMs must be at least twice ${what}, which is ${windowMs} ms: at least ${2 * windowMs}, not ${inboxRetentionMs}`,
    );
  // Retries without a limit end when the message expires: see below.
  if (retry.maxRetries !== Number.POSITIVE_INFINITY) checkWindow("the retry window", retryWindowMs(retry));
  for (const [id, source] of Object.entries(sources))
    if (source?.retryWindowMs !== undefined)
      checkWindow(`the retry window of the source "${id}"`, source.retryWindowMs);
  problems.unless(
    inboxRetentionMs >= ttlMs,
    `inboxRetentionMs must be at least ttlMs (${ttlMs}), not ${inboxRetentionMs}: a message may be sent until it expires`,
  );
  // One that is signed by a clock as fast as is allowed can be replayed until that clock's time and the tolerance are over.
  problems.unless(
    inboxRetentionMs >= 2 * toleranceMs,
    `inboxRetentionMs must be at least twice toleranceMs: at least ${2 * toleranceMs}, not ${inboxRetentionMs}, or a message could be replayed when it is forgotten`,
  );
  problems.unless(
    failedRetentionMs >= ttlMs,
    `failedRetentionMs must be at least ttlMs (${ttlMs}), not ${failedRetentionMs}: a Failed message would be deleted before it is reported as Expired`,
  );
}
