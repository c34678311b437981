import { createHash } from "node:crypto";
import type { Client, ClientConfig, Pool, PoolClient, PoolConfig, Query } from "pg";
import { abortable } from "../../base/abortable.js";
import { sleep } from "../../base/wait.js";
import { DriverMissingError, InvalidOperationError } from "../../errors.js";
import {
  type Asked,
  ask,
  type SqlDriver,
  type SqlExecutor,
  type SqlParams,
  type SqlRow,
  type SqlStatement,
} from "../driver.js";
import { toPositional } from "../named-parameters.js";
import { closedError, transactionScope } from "../transaction-scope.js";
import { transactionSlots } from "../transaction-slots.js";

/** What a pg Client, PoolClient or Pool has; a caller's own transaction comes as one of them. */
export interface PgQueryable {
  query(config: { text: string; values: unknown[]; name?: string }): Promise<{ rows: unknown[] }>;
}

interface Compiled {
  readonly text: string;
  readonly order: readonly string[];
  readonly name: string;
}

const compiled = new WeakMap<SqlStatement, Compiled>();

function compile(statement: SqlStatement): Compiled {
  let entry = compiled.get(statement);
  if (entry === undefined) {
    const positional = toPositional(statement.text);
    const digest = createHash("sha256").update(positional.text).digest("hex").slice(0, 16);
    entry = { ...positional, name: `oncebox_${digest}` };
    compiled.set(statement, entry);
  }
  return entry;
}

const toPg = (value: SqlParams[string] | undefined): unknown =>
  value instanceof Uint8Array
    ? Buffer.from(value.buffer, value.byteOffset, value.byteLength)
    : (value ?? null);

/** On a connection of the caller's, whose session may be any pooler's: nothing is prepared in it. */
export async function pgQuery(
  on: PgQueryable,
  statement: SqlStatement,
  params: SqlParams,
): Promise<readonly SqlRow[]> {
  const { text, order } = compile(statement);
  const values = order.map((parameter) => toPg(params[parameter]));
  try {
    return (await on.query({ text, values })).rows as SqlRow[];
  } catch (error) {
    throw withoutDetail(error);
  }
}

type Answered = (error: Error | null | undefined, result: { readonly rows: unknown[] }) => void;

/** Sends a statement on a connection of our own. */
type Send = (client: PoolClient, statement: SqlStatement, params: SqlParams, answered: Answered) => void;

/**
 * Made of a text: of settings, pg would make a copy first, property by property with their descriptors, which takes as
 * long as all else that it does to send them.
 */
const sender =
  (PgQuery: typeof Query, prepare: boolean): Send =>
  (client, statement, params, answered) => {
    const { text, order, name } = compile(statement);
    const values = order.map((parameter) => toPg(params[parameter]));
    const query: Query & { name?: string } = new PgQuery(text, values, answered);
    if (prepare && !statement.unprepared) query.name = name;
    client.query(query);
  };

type SendQuestion = (
  client: PoolClient,
  question: SqlStatement,
  answered: (error: Error | null | undefined, answers: readonly string[]) => void,
) => void;

interface PgConnection {
  describe: unknown;
}
const noDescription = (): void => {};

/**
 * Takes only the first column, as it came, and asks for no description of it: for rows that nearly never come, that
 * takes server and driver longer than to find out that there are none.
 */
function questioner(PgQuery: typeof Query, prepare: boolean): SendQuestion {
  const Prepared = PgQuery as unknown as new (
    ...values: ConstructorParameters<typeof Query>
  ) => Query & { prepare(connection: PgConnection): void };
  class Question extends Prepared {
    readonly answers: string[] = [];
    declare name?: string;
    override prepare(connection: PgConnection): void {
      const { describe } = connection;
      connection.describe = noDescription;
      try {
        super.prepare(connection);
      } finally {
        connection.describe = describe;
      }
    }
    handleRowDescription(): void {}
    handleDataRow({ fields }: { readonly fields: readonly unknown[] }): void {
      this.answers.push(String(fields[0]));
    }
  }
  return (client, question, answered) => {
    const { text, name } = compile(question);
    const query: Question = new Question(text, noValues, (error) => answered(error, query.answers));
    if (prepare && !question.unprepared) query.name = name;
    client.query(query);
  };
}

const noValues: unknown[] = [];

const sent = (send: Send, client: PoolClient, statement: SqlStatement, params: SqlParams) =>
  new Promise<readonly SqlRow[]>((resolve, reject) => {
    send(client, statement, params, (error, result) => {
      if (error) reject(withoutDetail(error));
      else resolve(result.rows as SqlRow[]);
    });
  });

/** "Failing row contains (…)": a payload must not get into a caller's log with the error. */
function withoutDetail(error: unknown): unknown {
  if (error instanceof Error && "detail" in error) delete error.detail;
  return error;
}

export interface PgClientOptions {
  readonly config: PoolConfig;
  readonly prepare: boolean;
}

interface Opened {
  readonly pool: Pool;
  readonly send: Send;
  readonly sendQuestion: SendQuestion;
}

/** A pool, made at first use; the driver is loaded then too. */
export function pgClient(options: PgClientOptions): SqlDriver {
  let opening: Promise<Opened> | undefined;
  /** The same when it is there: each message would wait for the promise once more. */
  let opened: Opened | undefined;
  let closed = false;
  /** The first connection while it is made ahead: the pool would make another for whoever comes meanwhile. */
  let connecting: Promise<void> | undefined;
  const slots = transactionSlots(options.config.max ?? 10); // pg's own default

  const open = async (): Promise<Opened> => {
    if (closed) throw closedError();
    opening ??= loadPool(options).catch((error) => {
      opening = undefined;
      throw error;
    });
    const made = await opening;
    if (!closed) opened = made;
    return made;
  };

  const connectOnce = async (): Promise<void> => {
    const { pool } = await open();
    const client = await pool.connect();
    client.release();
  };

  const withClient = async <T>(
    work: (client: PoolClient, send: Send) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> => {
    signal?.throwIfAborted();
    const { pool: from, send } = opened ?? (await open());
    if (connecting !== undefined) await abortable(connecting.catch(ignored), signal);
    const client =
      signal === undefined || isOneFree(from) ? await from.connect() : await connected(from, signal);
    let failed: Error | undefined;
    try {
      return await (signal === undefined ? work(client, send) : abortable(work(client, send), signal));
    } catch (error) {
      if (signal?.aborted) void cancel(from, client);
      if (signal?.aborted || isConnectionError(error)) failed = error as Error;
      // A pipelining client would first wait for the statement that is not wanted any more.
      if (failed !== undefined) Object.assign(client, { pipeline: false });
      throw error;
    } finally {
      client.release(lostClients.get(client) ?? failed);
    }
  };

  const runTransaction = async <T>(
    client: PoolClient,
    send: Send,
    work: (tx: SqlExecutor) => Promise<T>,
  ): Promise<T> => {
    let begun = false;
    // The first statement brings the begin along: one round trip less where pg pipelines, and none for no statement.
    const scope = transactionScope({
      // Without it, pg could forget a statement that waits behind another, and commit without it.
      pipelines: client.pipeline === true,
      async query(statement, params) {
        const begin = begun ? undefined : client.query("begin");
        begun = true;
        const [rows] = await Promise.all([sent(send, client, statement, params), begin]);
        return rows;
      },
    });
    try {
      const result = await work(scope.tx);
      scope.end();
      if (!begun) return result;
      // After a failed statement, COMMIT is answered by ROLLBACK, and by no error.
      const { command } = await client.query("commit");
      if (command !== "COMMIT") {
        throw new InvalidOperationError(
          "The transaction was rolled back, because a statement in it had failed.",
        );
      }
      return result;
    } catch (error) {
      scope.end();
      if (begun) await client.query("rollback").catch((failure: Error) => client.emit("error", failure));
      throw error;
    }
  };

  const query: SqlDriver["query"] = (statement, params, queryOptions) =>
    withClient((client, send) => sent(send, client, statement, params), queryOptions?.signal);

  return {
    query,
    ask: (question) =>
      opened !== undefined && connecting === undefined && isOneFree(opened.pool)
        ? askNow(opened, question)
        : ask({ query }, question),
    async transaction(work, queryOptions) {
      const release = await slots.take(queryOptions?.signal);
      try {
        return await withClient((client, send) => runTransaction(client, send, work), queryOptions?.signal);
      } finally {
        release();
      }
    },
    async open() {
      connecting ??= connectOnce().finally(() => {
        connecting = undefined;
      });
      return connecting;
    },
    async close() {
      closed = true;
      opened = undefined;
      const last = await opening?.catch(() => undefined);
      opening = undefined;
      if (last !== undefined) await endAll(last.pool);
    },
  };
}

/** Then it comes within the same turn of the event loop, and need not be waited for with one eye on the signal. */
const isOneFree = (from: Pool): boolean => from.idleCount > from.waitingCount;

/**
 * By callbacks on a connection that is free: a signal with a listener, and a promise for each step on the way, would
 * take as long as the server takes to say that there is nothing.
 */
function askNow({ pool, sendQuestion }: Opened, question: SqlStatement): Asked {
  let isOver = false;
  let giveUp = (_reason: Error): void => {};
  const answers = new Promise<readonly string[]>((resolve, reject) => {
    giveUp = reject;
    pool.connect((failure, client, release) => {
      if (client === undefined) return reject(failure);
      if (isOver) return release();
      giveUp = (reason) => {
        reject(reason);
        void cancel(pool, client);
        Object.assign(client, { pipeline: false });
        release(reason);
      };
      sendQuestion(client, question, (error, found) => {
        if (isOver) return; // and the connection has been given back
        isOver = true;
        release(lostClients.get(client) ?? (error && isConnectionError(error) ? error : undefined));
        if (error) reject(withoutDetail(error));
        else resolve(found);
      });
    });
  });
  return {
    answers,
    cancel(reason) {
      if (isOver) return;
      isOver = true;
      giveUp(reason);
    },
  };
}

/** Whoever needs the connection then finds out by its own attempt. */
const ignored = (): void => {};

const connected = (from: Pool, signal: AbortSignal): Promise<PoolClient> =>
  abortable(from.connect(), signal, { late: (client) => client.release() });

/** Clients whose connection was lost, while they were in use too: the pool must not get them back. */
const lostClients = new WeakMap<object, Error>();

/** Connections of a pool that the server has not let go of yet. */
const notGone = new WeakMap<Pool, Set<PoolClient>>();
const longestGoodbyeMs = 2_000;

/** The pool's own end does not wait for the server, which may then count old connections and new ones together. */
async function endAll(pool: Pool): Promise<void> {
  // Whoever waits for a connection when the pool ends would not be told, neither then nor later.
  while (pool.waitingCount > 0) await sleep(1);
  await pool.end();
  const left = notGone.get(pool)!;
  if (left.size === 0) return;
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, longestGoodbyeMs);
    pool.on("remove", () => {
      if (left.size > 0) return;
      clearTimeout(timer);
      resolve();
    });
  });
}

/** A closed socket alone does not stop a statement that waits for a lock: it would still commit later. */
async function cancel(from: Pool, client: PoolClient): Promise<void> {
  const { processID } = client as unknown as { processID?: number };
  if (processID !== undefined) await from.query("select pg_cancel_backend($1)", [processID]).catch(() => {});
}

/** The connection is gone or going, so the pool must not hand it out again. */
function isConnectionError(error: unknown): boolean {
  const { code = "", message = "" } = error as { code?: string; message?: string };
  return /^(08|57P|E[A-Z]{3,})/.test(code) || /Connection terminated|not queryable/.test(message);
}

async function loadPg(): Promise<typeof import("pg")["default"]> {
  try {
    return (await import("pg")).default;
  } catch (error) {
    throw new DriverMissingError("pg", "PostgreSQL", error);
  }
}

async function loadPool({ config, prepare }: PgClientOptions): Promise<Opened> {
  const { Pool: PgPool, Query: PgQuery } = await loadPg();
  const made = new PgPool(config);
  // An idle client that the server closed is dropped by the pool; unheard, the event would end the process.
  made.on("error", () => {});
  const clients = new Set<PoolClient>();
  made.on("connect", (client) => void clients.add(client));
  made.on("remove", (client) => void clients.delete(client));
  notGone.set(made, clients);
  // One that is lost while in use tells only whoever listens; its query rejects by itself.
  made.on("connect", (client) => client.on("error", (error: Error) => lostClients.set(client, error)));
  return { pool: made, send: sender(PgQuery, prepare), sendQuestion: questioner(PgQuery, prepare) };
}

/** A client outside of any pool, not connected yet: listening belongs to one connection. */
export const pgListener = async (config: ClientConfig): Promise<Client> =>
  new (await loadPg()).Client(config);
