import { memoisePromise } from "../base/async.js";
import { safeReason } from "../base/logger.js";
import { InvalidOperationError, PermissionDeniedError, SchemaMissingError } from "../errors.js";
import type { CallOptions } from "../queue/work-store.js";
import type { ReceivingDatabase, Rows } from "./dialect.js";
import {
  requireExecutor,
  retryTransient,
  type SqlExecutor,
  type SqlParams,
  type SqlStatement,
} from "./driver.js";
import { attemptLimit, type ResolvedStoreOptions } from "./store-options.js";

/** Runs a queue's statements with its policy, its clock, transient retries, and a readable error for a missing schema. */
export interface StatementRunner {
  execute(statement: SqlStatement, params: SqlParams, options?: CallOptions): Promise<Rows>;
  executeIn(
    tx: SqlExecutor | undefined,
    statement: SqlStatement,
    params: SqlParams,
    options: CallOptions,
  ): Promise<Rows>;
  /** Several statements in one transaction, repeated as a whole after a transient fault. */
  atomically<T>(work: (tx: SqlExecutor) => Promise<T>, options: CallOptions): Promise<T>;
  /** Deploys the schema where the options ask for it. */
  ready(options: CallOptions): Promise<void>;
}

type RunnerOptions = Omit<ResolvedStoreOptions<never>, "onDead">;

/** `deploySchema` is called where the options ask for it, until it succeeds. */
export function statementRunner(
  db: ReceivingDatabase,
  kind: "inbox" | "outbox",
  options: RunnerOptions,
  deploySchema?: () => Promise<unknown>,
): StatementRunner {
  const { driver, dialect } = db;
  const withPolicy = policyParams(db, options);
  let isDeployed = !options.enableSchemaDeployment || deploySchema === undefined;
  const deploy = memoisePromise(async () => {
    await deploySchema?.();
    isDeployed = true;
  });

  const orMissing = (error: unknown): unknown =>
    dialect.isSchemaMissing(error)
      ? new SchemaMissingError(
          `The ${kind} "${options.table}" is not in ${db.id}, or is older than this version of oncebox. Check the names, and run \`oncebox migrate\`, migrate(db), or init() of a service.`,
          { cause: error },
        )
      : error;

  /** The server's text names the object. Not of a transaction as a whole: it may have statements of a handler, on tables of its own. */
  const readable = (error: unknown, { name }: SqlStatement): unknown =>
    dialect.isDenied?.(error)
      ? new PermissionDeniedError(
          `Permission denied: the database user may not run "${name}" on the ${kind} "${options.table}". Give it the role for this: see infra/sql/users-${dialect.name}.sql. The server says: ${(error as Error).message}`,
          { cause: error },
        )
      : orMissing(error);

  const ready = async (call: CallOptions): Promise<void> => {
    call.signal?.throwIfAborted();
    if (!isDeployed) await deploy();
  };

  /** Outside of a caller's transaction. */
  const repeated = async <T>(what: string, work: () => Promise<T>, call: CallOptions): Promise<T> => {
    call.signal?.throwIfAborted();
    if (!isDeployed) await deploy();
    const warn = (error: unknown, retry: number) =>
      options.logger.warn("database fault, trying again", {
        statement: what,
        retry,
        error: safeReason(error),
      });
    const retries = { classify: dialect.classify, signal: call.signal, onRetry: warn };
    try {
      return await work();
    } catch (failure) {
      return retryTransient(failure, work, retries).catch((error: unknown) => {
        throw orMissing(error);
      });
    }
  };

  const execute: StatementRunner["execute"] = (statement, params, call = {}) =>
    repeated(statement.name, () => driver.query(statement, withPolicy(params), call), call).catch(
      (error: unknown) => {
        throw readable(error, statement);
      },
    );

  /** In a caller's transaction nothing is repeated: the caller decides what to do about a fault. */
  const executeInside = async (
    tx: SqlExecutor,
    statement: SqlStatement,
    params: SqlParams,
    call: CallOptions,
  ): Promise<Rows> => {
    if (!isDeployed) {
      throw new InvalidOperationError(
        `The schema cannot be deployed inside of a transaction. Await ${kind}.init() before the first one.`,
      );
    }
    requireExecutor(tx);
    call.signal?.throwIfAborted();
    try {
      return await tx.query(statement, withPolicy(params), call);
    } catch (error) {
      throw readable(error, statement);
    }
  };

  return {
    execute,
    executeIn: (tx, statement, params, call) =>
      tx === undefined ? execute(statement, params, call) : executeInside(tx, statement, params, call),
    atomically: (work, call) => repeated("transaction", () => driver.transaction(work, call), call),
    ready,
  };
}

/** Adds the retry policy and the clock of the store to a statement's parameters. */
function policyParams({ dialect }: ReceivingDatabase, { clock, retry }: RunnerOptions) {
  const policy: SqlParams = {
    max_attempts: attemptLimit(retry.maxAttempts),
    base_ms: retry.baseMs,
    factor: retry.factor,
    max_ms: retry.maxMs,
    jitter_ms: retry.jitterMs,
  };
  return (params: SqlParams): SqlParams => {
    const now = clock === undefined ? null : dialect.toTime(clock());
    return { now, ...policy, ...params };
  };
}

interface Chunking {
  /** The most items in one statement; undefined where there is no limit. */
  readonly maxItems: number | undefined;
  readonly tx: SqlExecutor | undefined;
  readonly call: CallOptions;
}

/** Calls `run` with all items, or with a part at a time in one transaction: the caller's, or one of its own. */
export async function inChunks<Item>(
  { atomically }: Pick<StatementRunner, "atomically">,
  items: readonly Item[],
  { maxItems = Number.POSITIVE_INFINITY, tx, call }: Chunking,
  run: (tx: SqlExecutor | undefined, items: readonly Item[]) => Promise<Rows>,
): Promise<Rows> {
  if (items.length <= maxItems) return run(tx, items);
  const all = async (within: SqlExecutor): Promise<Rows> => {
    const parts: Rows[] = [];
    for (let from = 0; from < items.length; from += maxItems)
      parts.push(await run(within, items.slice(from, from + maxItems)));
    return parts.flat();
  };
  return tx === undefined ? atomically(all, call) : all(tx);
}
