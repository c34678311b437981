import { loggerProblem } from "../base/logger.js";
import { isSecretReference } from "../config/secret-reference.js";
import { InvalidArgumentError } from "../errors.js";
import { deadRetentionRule, isDeadRetention } from "../queue/dead-retention.js";
import type { AppDefinition } from "./app-definition.js";

/** Returns what is wrong with a value, or undefined. */
type Check = (value: unknown) => string | undefined;

const must =
  (isRight: (value: unknown) => boolean, what: string): Check =>
  (value) =>
    isRight(value) ? undefined : `must be ${what}`;

const isText = (value: unknown): boolean => typeof value === "string" && value !== "";
const isFunction = (value: unknown): boolean => typeof value === "function";
const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const hasFunction =
  (name: string) =>
  (value: unknown): boolean =>
    isFunction((value as Readonly<Record<string, unknown>> | null)?.[name]);

/** An object literal: neither a list nor an instance of a class. */
function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  if (!isObject(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

const text = must(isText, "a non-empty string");
const options = must(isRecord, "an object");
const handlers = must(
  (value) => isFunction(value) || isRecord(value),
  "an object of functions by topic, or a function that returns one",
);

const aboveZero = must((value) => Number.isFinite(value) && (value as number) > 0, "a number above 0");

const fields: Readonly<Record<keyof AppDefinition, Check>> = {
  database: must(
    (value) => isText(value) || isFunction(value) || isSecretReference(value),
    "a URL, a reference to a secret, or a function that opens a database",
  ),
  tenants: must(hasFunction("open"), "what multiTenant(…) of oncebox/app returns"),
  sources: must(
    (value) => isRecord(value) && Object.values(value).every(isRecord),
    "an object with an object for each source",
  ),
  handlers,
  ignore: must((value) => Array.isArray(value) && value.every(isText), "a list of topics"),
  otherwise: must((value) => ["ack", "dead", "retry"].includes(value as string), '"ack", "dead" or "retry"'),
  publishers: handlers,
  consumer: must(
    (value) =>
      isObject(value) &&
      isText(value.subscriber) &&
      isFunction(value.handle) &&
      Object.keys(value).length === 2,
    "{ subscriber, handle }: a non-empty string and a function",
  ),
  inbox: options,
  outbox: options,
  schema: text,
  dispatch: options,
  webhooks: options,
  service: must(isRecord, 'an object with tokens, or with auth: "none"'),
  admin: must((value) => isRecord(value) && value.tokens !== undefined, "an object with tokens"),
  retentionMs: aboveZero,
  deadRetentionMs: must(isDeadRetention, deadRetentionRule),
  operationRetentionMs: aboveZero,
  logger: must(
    (value) => loggerProblem(value) === undefined,
    "a logger with debug, info, warn and error, or false",
  ),
  metrics: must((value) => typeof value === "object" && value !== null, "an object"),
  tracing: must(hasFunction("start"), "what openTelemetry() of oncebox/telemetry returns"),
};

/** Throws one error with all problems. Written by hand: it runs in every cold start, and `defineApp` cannot wait for zod. */
export function checkDefinition(app: unknown): void {
  if (!isObject(app)) throw new InvalidArgumentError("defineApp: the definition must be an object.");
  const problems = Object.entries(fields).flatMap(([name, check]) => {
    const problem = app[name] === undefined ? undefined : check(app[name]);
    return problem === undefined ? [] : [`${name} ${problem}`];
  });
  const unknown = Object.keys(app).filter((name) => !Object.hasOwn(fields, name));
  if (unknown.length > 0)
    problems.push(`unknown: ${unknown.join(", ")}. Known: ${Object.keys(fields).join(", ")}`);
  if (app.database !== undefined && app.tenants !== undefined)
    problems.push("database and tenants both define where messages are stored; give one of them");
  if (app.consumer !== undefined && app.tenants !== undefined)
    problems.push("a consumer needs the app's one database, and an app with tenants has none");
  if (isRecord(app.service)) problems.push(...serviceProblems(app, app.service));
  if (problems.length > 0) throw new InvalidArgumentError(`defineApp: ${problems.join("; ")}.`);
}

/** The rest of the service's options is checked where the service is made. */
function serviceProblems(
  { tenants, retentionMs, sources }: Readonly<Record<string, unknown>>,
  { store, tokens, auth, retentionMs: kept = weekMs }: Readonly<Record<string, unknown>>,
): readonly string[] {
  const problems: string[] = [];
  if ((tokens === undefined) === (auth === undefined))
    problems.push('service must have either tokens or auth: "none"');
  if (store !== undefined) return problems;
  if (tenants !== undefined)
    problems.push("a service without a store needs the app's one database, and an app with tenants has none");
  if (isRecord(sources) && Object.hasOwn(sources, keysSource))
    problems.push(`no source may be named "${keysSource}": the service's keys have that source in the inbox`);
  if (typeof retentionMs === "number" && typeof kept === "number" && retentionMs < kept)
    problems.push(
      `retentionMs is ${retentionMs} ms, and the service must keep its keys, which are in the same table, for ${kept} ms`,
    );
  return problems;
}

/** The source of the service's keys, as in `createSqlInboxStore`. Not imported: every cold start would load the store. */
const keysSource = "inbox-service";

/** The shortest time that keys are kept. */
const weekMs = 7 * 24 * 60 * 60 * 1_000;
