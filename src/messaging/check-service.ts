import { problemOf } from "../base/problem-of.js";
import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown } from "../queue/arguments.js";
import type { Database } from "../sql/dialect.js";
import { checkMessages } from "./check-messages.js";
import { checkTimes } from "./check-times.js";
import { serviceIdProblem } from "./service-id.js";
import { type AnyServiceOptions, knownOptions, type SeparateDatabases } from "./service-options.js";

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
