import type { Database } from "../sql/dialect.js";
import { measureInbox } from "./bench/measure-inbox.js";
import { createScratch, type ScratchDatabase } from "./bench/scratch-database.js";
import type { Measurement } from "./bench/summarise.js";
import {
  type Command,
  type CommandInput,
  count,
  exitCodes,
  seconds,
  type Terminal,
  text,
  UsageError,
  type Values,
} from "./command.js";
import { withProgress } from "./progress.js";
import { storeHelp, storeOptions, withStores } from "./queue-stores.js";
import { tableLines } from "./table.js";

const mostConcurrent = 1_000;
const mostPayloadBytes = 1_000_000;

export const benchCommand: Command = {
  name: "bench",
  summary: "measure this database in a schema of its own, which is dropped afterwards",
  usage: "bench [--yes | --schema NAME] [--seconds N] [--concurrency N,N] [--payload BYTES] [options]",
  options: {
    seconds: { type: "string" },
    concurrency: { type: "string" },
    payload: { type: "string" },
    yes: { type: "boolean" },
    ...storeOptions,
  },
  help: {
    seconds: "the seconds to measure; 20 by default. Making and dropping the tables comes on top",
    concurrency: "callers of receive and handlers of dispatch at a time; 1,8,32 by default",
    payload: "the bytes of a payload; 1000 by default",
    yes: "make a schema with a new name; SQLite uses a new file beside the database, and needs no --yes",
    ...storeHelp,
    schema: "the name of the schema to make, which must not exist; instead of --yes",
  },
  examples: [
    "oncebox bench --database sqlite:app.db",
    "oncebox bench --yes --seconds 60 --database postgres://app@localhost/orders",
    "oncebox bench --schema scratch --concurrency 1,16,64 --json --app dist/app.js",
  ],
  async run(input) {
    const { values } = input;
    const options = {
      ms: seconds(values, "seconds", 20),
      concurrencies: concurrenciesOf(values),
      payloadBytes: payloadOf(values),
      signal: input.terminal.signal,
    };
    return withStores(input, async ({ db }) => {
      requireConsent(db, values);
      const scratch = await createScratch(db, text(values, "schema"));
      return dropping(scratch, input.terminal, async () => {
        input.terminal.err(`Measuring in ${scratch.name}, which is dropped at the end.`);
        const measured = await withProgress(input.terminal, "measuring", () =>
          measureInbox(scratch, options),
        );
        print(db, measured, input);
        return options.signal.aborted ? exitCodes.more : exitCodes.ok;
      });
    });
  },
};

function concurrenciesOf(values: Values): readonly number[] {
  const all = (text(values, "concurrency") ?? "1,8,32").split(",").map((part) => Number(part));
  if (all.some((one) => !Number.isInteger(one) || one < 1 || one > mostConcurrent))
    throw new UsageError(`--concurrency must be whole numbers from 1 to ${mostConcurrent}, with commas.`);
  return all;
}

function payloadOf(values: Values): number {
  const bytes = count(values, "payload") ?? 1_000;
  if (bytes > mostPayloadBytes) throw new UsageError(`--payload must be ${mostPayloadBytes} at most.`);
  return bytes;
}

/** A server has other users, who notice the load. */
function requireConsent({ id, dialect }: Database, values: Values): void {
  const isFile = dialect.name === "sqlite";
  if (isFile && values.schema !== undefined)
    throw new UsageError(
      "--schema is for PostgreSQL and SQL Server. On SQLite bench uses a file of its own.",
    );
  if (isFile || values.yes || values.schema !== undefined) return;
  throw new UsageError(
    `bench would make a schema in ${id}, keep the server busy, and drop the schema. Allow it with --yes, or name the schema with --schema NAME.`,
  );
}

/** What was made is dropped after an error and after Ctrl-C too. */
async function dropping(
  scratch: ScratchDatabase,
  terminal: Terminal,
  work: () => Promise<number>,
): Promise<number> {
  try {
    return await work();
  } finally {
    await scratch.drop().catch((error: Error) => {
      terminal.err(`Drop ${scratch.name} by hand: it could not be dropped.`);
      throw error;
    });
  }
}

function print(db: Database, measured: readonly Measurement[], { values, terminal }: CommandInput): void {
  if (values.json) {
    terminal.out(JSON.stringify({ database: db.id, measured }));
    return;
  }
  const head = ["MEASURED", "CONCURRENCY", "PER SECOND", "MEDIAN MS", "P95 MS", "COUNT"];
  for (const line of tableLines(head, measured.map(row), terminal.columns)) terminal.out(line);
}

const row = (one: Measurement): readonly string[] => [
  one.name,
  String(one.concurrency ?? ""),
  String(Math.round(one.perSecond)),
  one.medianMs?.toFixed(2) ?? "",
  one.p95Ms?.toFixed(2) ?? "",
  String(one.count),
];
