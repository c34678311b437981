import { keyText } from "../admin/page/key-text.js";
import { type App, appDatabases } from "../app/create-app.js";
import { type AppStats, appStats, type MeasuredStores } from "../app/stats.js";
import { sleep } from "../base/timers.js";
import type { BlockedPartition } from "../queue/operators.js";
import { type AnyKey, type QueueKind, type QueueStats, queueOf } from "../queue/work-store.js";
import {
  type Command,
  type CommandInput,
  count,
  duration,
  exitCodes,
  pageSize,
  seconds,
  UsageError,
} from "./command.js";
import { controlLine, phaseLine } from "./controls.js";
import {
  chosenStores,
  type QueueStores,
  requireDatabaseFile,
  storeHelp,
  storeOptions,
  withExistingDatabase,
  withStores,
} from "./load-app.js";
import { filterHelp, filterOptions, queuesOf } from "./message-options.js";
import { tableLines } from "./output.js";

export const statusCommand: Command = {
  name: "status",
  summary:
    "count the messages that wait, run, are paused, done or dead; show the age of the oldest due message, pauses and limits",
  usage: "status [--max-age SECONDS] [--max-dead N] [--watch] [options]",
  options: {
    ...storeOptions,
    "max-age": { type: "string" },
    "max-dead": { type: "string" },
    watch: { type: "boolean" },
    every: { type: "string" },
  },
  help: {
    "max-age": `exit with ${exitCodes.exceeded} when a message has been due for more seconds than this`,
    "max-dead": `exit with ${exitCodes.exceeded} when there are more dead messages than this`,
    watch: "repeat until Ctrl-C; the exit code is that of the last time",
    every: "the time between two repeats, such as 10s or 1m; 2s by default",
    ...storeHelp,
    tenant: "the numbers of one tenant; the sums of all tenants by default",
  },
  examples: [
    "oncebox status --database sqlite:app.db",
    "oncebox status --max-age 300 --max-dead 0 --json",
    "oncebox status --watch --every 10s --app dist/app.js",
    "oncebox status --app dist/app.js --tenant acme",
  ],
  async run(input) {
    const { values } = input;
    if (values.every !== undefined && !values.watch) throw new UsageError("--every is for --watch.");
    const everyMs = duration(values, "every", "2s");
    const limits = limitsOf(input);
    return withExistingDatabase(input, async (app) => {
      const retention = deadRetention(input, app);
      const isOne = values.tenant !== undefined;
      if (!isOne) for (const db of await appDatabases(app)) requireDatabaseFile(db);
      const stores = isOne ? await chosenStores(input, app) : app;
      const once = () => printStatus(input, stores, limits, retention);
      return values.watch ? repeat(input, everyMs, once) : once();
    });
  },
};

interface Limits {
  readonly maxAgeMs: number;
  readonly maxDead: number;
}

const limitsOf = ({ values }: CommandInput): Limits => ({
  maxAgeMs: values["max-age"] === undefined ? Number.POSITIVE_INFINITY : seconds(values, "max-age", 0),
  maxDead: count(values, "max-dead") ?? Number.POSITIVE_INFINITY,
});

/** How long dead messages are kept: null for ever; undefined when it is not known, because the app was not given. */
const deadRetention = ({ values }: CommandInput, { retentions }: App): number | null | undefined =>
  retentions.deadRetentionMs ?? (values.app === undefined ? undefined : null);

const deadLine = (retentionMs: number | null): string =>
  retentionMs === null
    ? "dead messages are kept until they are replayed, discarded or archived"
    : `dead messages are deleted ${Math.round((retentionMs / 86_400_000) * 10) / 10} days after their death`;

/** Moves to the top of the screen and clears it. */
const clear = "\u001b[H\u001b[J";

/** After the first time, a database that is away is reported and asked again: someone may watch a fail-over. */
async function repeat(
  { terminal }: CommandInput,
  everyMs: number,
  once: () => Promise<number>,
): Promise<number> {
  let code = await once();
  for (;;) {
    await sleep(everyMs, terminal.signal).catch(() => {});
    if (terminal.signal.aborted) return code;
    code = await once().catch((error: Error) => {
      terminal.err(`The status could not be read: ${error.message}`);
      return exitCodes.failed;
    });
  }
}

async function printStatus(
  { values, terminal }: CommandInput,
  stores: MeasuredStores,
  limits: Limits,
  deadRetentionMs: number | null | undefined,
): Promise<number> {
  const stats = await appStats(stores);
  const { inbox, outbox, controls, failed } = stats;
  const at = values.watch ? { at: new Date().toISOString() } : {};
  if (values.json) terminal.out(JSON.stringify({ ...at, inbox, outbox, controls, deadRetentionMs, failed }));
  else {
    if (at.at !== undefined) terminal.out(terminal.columns === undefined ? at.at : `${clear}${at.at}`);
    terminal.out(statusLine("inbox", inbox));
    terminal.out(statusLine("outbox", outbox));
    for (const control of controls) terminal.out(controlLine(control.queue, control));
    if (deadRetentionMs !== undefined && inbox.phases.dead + outbox.phases.dead > 0)
      terminal.out(deadLine(deadRetentionMs));
  }
  if (failed === undefined) return isExceeded(stats, limits) ? exitCodes.exceeded : exitCodes.ok;
  terminal.err(`${failed.length} tenants did not respond and are not counted: ${failed.join(", ")}`);
  return exitCodes.failed;
}

function isExceeded({ inbox, outbox }: AppStats, { maxAgeMs, maxDead }: Limits): boolean {
  const tooOld = [inbox, outbox].some((stats) => (stats.oldestDueAgeMs ?? 0) > maxAgeMs);
  return tooOld || inbox.phases.dead + outbox.phases.dead > maxDead;
}

/** The numbers of a queue: how many messages are in which state, and how many are due. */
export function statusLine(queue: QueueKind, stats: QueueStats<string>): string {
  const { due, oldestDueAgeMs } = stats;
  const age = oldestDueAgeMs === null ? "" : `, the oldest for ${Math.round(oldestDueAgeMs / 1000)} s`;
  return `${phaseLine(queue, stats)}  (due now: ${due}${age})`;
}

const { queue } = filterOptions;

export const partitionsCommand: Command = {
  name: "partitions",
  summary: "list partition keys whose first message holds up the others",
  usage: "partitions [--queue inbox|outbox] [options]",
  options: { queue, limit: { type: "string" }, ...storeOptions },
  help: {
    queue: filterHelp.queue,
    limit: "the most partition keys of each queue; 50 by default, 1000 at most",
    ...storeHelp,
    json: "print one JSON object per line",
  },
  examples: ["oncebox partitions", "oncebox partitions --queue outbox --limit 10 --json"],
  run: (input) =>
    withStores(input, async (stores) => {
      for (const kind of queuesOf(input.values)) await printBlocked(input, stores, kind);
      return exitCodes.ok;
    }),
};

async function printBlocked(
  { values, terminal }: CommandInput,
  stores: QueueStores,
  kind: QueueKind,
): Promise<void> {
  const limit = pageSize(values);
  const found = await queueOf(stores, kind).blockedPartitions({ limit, signal: terminal.signal });
  if (values.json)
    for (const one of found) terminal.out(JSON.stringify({ queue: kind, ...one, head: keyText(one.head) }));
  else if (found.length === 0) terminal.out(`${kind}: no partition key is held up`);
  else {
    const head = [`${kind.toUpperCase()} KEY`, "REASON", "WAITING", "SINCE", "NEXT ATTEMPT", "HEAD", "ERROR"];
    for (const line of tableLines(head, found.map(partitionRow), terminal.columns)) terminal.out(line);
  }
}

const partitionRow = (one: BlockedPartition<AnyKey>): readonly string[] => [
  one.partitionKey,
  one.reason,
  String(one.waiting),
  one.since.toISOString(),
  one.nextAttemptAt?.toISOString() ?? "",
  keyText(one.head),
  one.error ?? "",
];
