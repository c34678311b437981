import { timeLimits } from "../../base/time-limits.js";
import { InvalidOperationError, SchemaMissingError } from "../../errors.js";
import type { Database, Dialect } from "../../sql/dialect.js";
import { ask, type SqlStatement } from "../../sql/driver.js";
import type { QueueNames } from "../../sql/names.js";
import type { TenantStores } from "../connections/tenant-stores.js";

export interface Due {
  readonly inbox: boolean;
  readonly outbox: boolean;
}

/** Where they are. */
export interface DueStores extends Pick<TenantStores, "tables"> {
  readonly db: Pick<Database, "dialect" | "driver" | "id">;
}

/** Rejects when there is no answer within this time. */
export type DueQuestion = (stores: DueStores, withinMs: number) => Promise<Due>;

const limits = timeLimits();

/**
 * Asks both queues in one round trip, which is all that a tenant with nothing to do costs. A database whose dialect
 * cannot is claimed from instead.
 */
export function dueQuestion(): DueQuestion {
  const byTables = new Map<string, SqlStatement | undefined>();
  const byStores = new WeakMap<DueStores, SqlStatement | undefined>();
  const statementFor = (stores: DueStores): SqlStatement | undefined => {
    const { db, tables } = stores;
    const key = JSON.stringify([db.dialect.name, tables]);
    if (!byTables.has(key)) byTables.set(key, makeStatement(db.dialect, tables));
    byStores.set(stores, byTables.get(key));
    return byTables.get(key);
  };
  return (stores, withinMs) => {
    const question = byStores.get(stores) ?? statementFor(stores);
    if (question === undefined) return Promise.resolve(everything);
    const { answers, cancel } = ask(stores.db.driver, question);
    return new Promise<Due>((resolve, reject) => {
      const ended = limits.after(withinMs, () => {
        const reason = new NoAnswerError(
          `The database did not say within ${Math.round(withinMs)} ms whether it has work.`,
        );
        reject(reason); // also where a driver does not give up when it is told to
        cancel(reason);
      });
      answers.then(
        (found) => {
          ended();
          resolve(found.length === 0 ? nothing : dueOf(found));
        },
        (error: unknown) => {
          ended();
          reject(stores.db.dialect.isSchemaMissing(error) ? schemaMissing(stores, error) : error);
        },
      );
    });
  };
}

const everything: Due = { inbox: true, outbox: true };
const nothing: Due = { inbox: false, outbox: false };
const dueOf = (queues: readonly string[]): Due => ({
  inbox: queues.includes("inbox"),
  outbox: queues.includes("outbox"),
});

/** There was none within the time. */
export class NoAnswerError extends InvalidOperationError {
  override readonly name = "NoAnswerError";
}

const schemaMissing = ({ db }: DueStores, cause: unknown) =>
  new SchemaMissingError(
    `The inbox or the outbox is not in ${db.id}, or is older than this version of oncebox. Migrate it when you deploy.`,
    { cause },
  );

function makeStatement(dialect: Dialect, { schema, inbox, outbox }: TenantStores["tables"]) {
  const names = (kind: QueueNames["kind"], table: string | undefined) =>
    dialect.names(kind, schema ?? dialect.defaults.schema, table ?? dialect.defaults[kind]);
  return dialect.due?.(names("inbox", inbox), names("outbox", outbox));
}
