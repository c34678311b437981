import { safeReason } from "../base/safe-reason.js";
import { InvalidOperationError, SchemaMissingError } from "../errors.js";
import type { CallOptions } from "../queue/work-store.js";
import type { ReceivingDatabase, Rows } from "./dialect.js";
import type { SqlExecutor, SqlParams, SqlStatement } from "./driver.js";
import type { ResolvedStoreOptions } from "./store-options.js";
import { retryTransient } from "./transient-retry.js";

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
  /** Deploys the schema where that was asked for. */
  ready(options: CallOptions): Promise<void>;
}

const noOptions: CallOptions = {};

/** `deploySchema` is for those who may: it is called where the options ask for it, until it succeeds. */
export function statementRunner(
  db: ReceivingDatabase,
  kind: "inbox" | "outbox",
  options: Omit<ResolvedStoreOptions<never>, "onDead">,
  deploySchema?: () => Promise<unknown>,
): StatementRunner {
  const { dialect, driver } = db;
  const { logger, retry } = options;
  const policy: SqlParams = {
    max_attempts: retry.maxAttempts,
    base_ms: retry.baseMs,
    factor: retry.factor,
    max_ms: retry.maxMs,
    jitter_ms: retry.jitterMs,
  };

  const deploying = options.enableSchemaDeployment ? deploySchema : undefined;
  let deployed: Promise<unknown> | undefined;
  let isDeployed = false;
  const deploy = (deployment: () => Promise<unknown>): Promise<unknown> => {
    deployed ??= deployment()
      .then(() => {
        isDeployed = true;
      })
      .catch((error) => {
        deployed = undefined; // a failed deployment is tried again by the next call
        throw error;
      });
    return deployed;
  };

  const now = () => (options.clock === undefined ? null : dialect.toTime(options.clock()));

  /** Every statement may be repeated: receive and enqueue find their own key, a settlement its own owner. */
  const retryFailed = async <T>(
    failure: unknown,
    what: string,
    work: () => Promise<T>,
    call: CallOptions,
  ): Promise<T> => {
    try {
      return await retryTransient(failure, work, {
        classify: dialect.classify,
        repeatable: true,
        signal: call.signal,
        onRetry: (error, count) =>
          logger.warn("database fault, trying again", {
            statement: what,
            retry: count,
            error: safeReason(error),
          }),
      });
    } catch (error) {
      throw dialect.isSchemaMissing(error) ? schemaMissing(error) : error;
    }
  };

  const withPolicy = (params: SqlParams): SqlParams => Object.assign({ now: now() }, policy, params);

  /** Called for every single message: what only a fault needs is made when there is one. */
  const execute = async (
    statement: SqlStatement,
    params: SqlParams,
    call: CallOptions = noOptions,
  ): Promise<Rows> => {
    call.signal?.throwIfAborted();
    if (deploying !== undefined) await deploy(deploying);
    try {
      return await driver.query(statement, withPolicy(params), call);
    } catch (error) {
      const again = () => driver.query(statement, withPolicy(params), call);
      return retryFailed(error, statement.name, again, call);
    }
  };

  const atomically = async <T>(work: (tx: SqlExecutor) => Promise<T>, call: CallOptions): Promise<T> => {
    call.signal?.throwIfAborted();
    if (deploying !== undefined) await deploy(deploying);
    const attempt = () => driver.transaction(work, call);
    try {
      return await attempt();
    } catch (error) {
      return retryFailed(error, "transaction", attempt, call);
    }
  };

  const executeIn: StatementRunner["executeIn"] = (tx, statement, params, call) =>
    tx === undefined ? execute(statement, params, call) : executeInside(tx, statement, params, call);

  /** In a transaction nothing is repeated: what to do about a fault is its owner's to decide. */
  const executeInside = async (
    tx: SqlExecutor,
    statement: SqlStatement,
    params: SqlParams,
    call: CallOptions,
  ): Promise<Rows> => {
    if (deploying !== undefined && !isDeployed) {
      throw new InvalidOperationError(
        `The schema cannot be deployed inside of a transaction. Await ${kind}.init() before the first one.`,
      );
    }
    call.signal?.throwIfAborted();
    try {
      return await tx.query(statement, withPolicy(params), call);
    } catch (error) {
      throw dialect.isSchemaMissing(error) ? schemaMissing(error) : error;
    }
  };

  const schemaMissing = (cause: unknown) =>
    new SchemaMissingError(
      `The ${kind} "${options.table}" is not in ${db.id}, or is older than this version of oncebox. Run migrate(db) when you deploy.`,
      { cause },
    );

  return {
    execute,
    executeIn,
    atomically,
    async ready(call) {
      call.signal?.throwIfAborted();
      if (deploying !== undefined) await deploy(deploying);
    },
  };
}
