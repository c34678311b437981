/**
 * A worker process of the soak. It may be killed or stopped at any moment, and ends by itself on SIGTERM or a poison message.
 * What it does goes to a file of its own first: see records.ts.
 */
import { existsSync } from "node:fs";
import {
  createInbox,
  createWorker,
  type HandlerContext,
  type InboxMessage,
  statement,
} from "../../../src/index.js";
import { openPostgres } from "../../../src/sql/postgres/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { poisonExitCode, type SoakWork } from "./messages.js";
import { recordedInbox, recorder } from "./recorded-inbox.js";
import type { Outcome } from "./records.js";
import { slowSettlements, withSlowSettlements } from "./slow-settlements.js";

export interface SoakChildOptions {
  readonly url: string;
  readonly schema: string | undefined;
  readonly records: string;
  readonly leaseMs: number;
  readonly maxAttempts: number;
  /** Until there is a file of this name, this process delays settlements: on SQLite, which has no proxy. */
  readonly over: string;
}

const options = JSON.parse(process.argv[2]!) as SoakChildOptions;
const { leaseMs } = options;
const concurrency = 8;
/** One for each handler's transaction, and for claim, reaper, settlements and renewals: none waits for a slow settlement. */
const maxConnections = concurrency + 8;
const isPostgres = options.url.startsWith("postgres:");
const db = isPostgres
  ? openPostgres({ url: options.url, maxConnections })
  : withSlowSettlements(
      openSqlite({ file: options.url }),
      slowSettlements(leaseMs, () => existsSync(options.over)),
    );
const records = recorder(options.records);
const schema = options.schema === undefined ? {} : { schema: options.schema };
const retry = { maxAttempts: options.maxAttempts, baseMs: 50, factor: 1.5, maxMs: 400 };
const inbox = recordedInbox(createInbox(db, { ...schema, retry }), records);

const prefix = options.schema === undefined ? "" : `${options.schema}.`;
const insertEffect = statement("effect", `insert into ${prefix}effects (message_id) values (:message_id)`);

const workOf = (message: InboxMessage): SoakWork => JSON.parse(message.payload) as SoakWork;
const start = ({ seq, owner }: InboxMessage) => records.write({ kind: "start", seq, owner: owner! });
const end = ({ seq, owner }: InboxMessage, outcome: Outcome) =>
  records.write({ kind: "end", seq, owner: owner!, outcome });

function finish(message: InboxMessage): void {
  const fails = workOf(message).fails && message.attempt === 0;
  end(message, fails ? "error" : "ok");
  if (fails) throw new Error("It fails at its first attempt.");
}

async function steady(message: InboxMessage, { signal }: HandlerContext): Promise<void> {
  start(message);
  const { ms, deaf } = workOf(message);
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms);
    if (deaf) return;
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
  if (deaf || !signal.aborted) return finish(message);
  end(message, "stopped");
  throw signal.reason;
}

const worker = createWorker({
  store: inbox,
  pollMs: 50,
  idlePollMs: 200,
  reapMs: leaseMs,
  leaseMs,
  concurrency,
  batchSize: 20,
  expectedHandlerMs: 20,
  handlers: {
    quick(message) {
      start(message);
      finish(message);
    },
    steady,
    long: steady,
    transactional: {
      transactional: true,
      async handle(message, { tx }) {
        start(message);
        await tx.query(insertEffect, { message_id: message.messageId });
        finish(message);
      },
    },
    poison(message) {
      start(message);
      process.exit(poisonExitCode);
    },
  },
});
process.once("SIGTERM", async () => {
  await worker.stop();
  await db.close();
});
