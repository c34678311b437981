import { keyText } from "../admin/page/key-text.js";
import { type AppJobs, appDatabases } from "../app/jobs.js";
import { type AppStats, appStats, type MeasuredStores } from "../app/stats.js";
import { sleep } from "../base/async.js";
import { inboxPhases, phases } from "../queue/message.js";
import type { Control, UnhandledTopic } from "../queue/operators.js";
import { type QueueKind, type QueueStats, queueKinds } from "../queue/work-store.js";
import { type Command, type CommandInput, exitCodes, flag, option, UsageError } from "./command.js";
import { chosenStores, requireDatabaseFile, withApp, withQueues } from "./load-app.js";
import {
  count,
  duration,
  filterOptions,
  pageSize,
  printable,
  printTable,
  queuesOf,
  seconds,
  storeOptions,
} from "./terminal.js";

export const statusCommand: Command = {
  name: "status",
  summary:
    "count the messages that wait, run, are paused, done or dead; show the age of the oldest due message, pauses, limits and topics without a handler",
  usage: "status [--max-age SECONDS] [--max-dead N] [--watch] [options]",
  options: {
    ...storeOptions,
    tenant: option("the numbers of one tenant; the sums of all tenants by default"),
    "max-age": option(
      `exit with ${exitCodes.exceeded} when a message has been due for more seconds than this`,
    ),
    "max-dead": option(`exit with ${exitCodes.exceeded} when there are more dead messages than this`),
    watch: flag("repeat until Ctrl-C; the exit code is that of the last time"),
    every: option("the time between two repeats, such as 10s or 1m; 2s by default"),
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
    return withApp(input, async (app) => {
      const settings = settingsOf(app, values.app !== undefined);
      const isOne = values.tenant !== undefined;
      if (!isOne) for (const db of await appDatabases(app)) requireDatabaseFile(db);
      const stores = isOne ? await chosenStores(input, app, app.tenants) : app;
      const once = () => printStatus(input, stores, limits, settings);
      return values.watch ? repeat(input, everyMs, once) : once();
    });
  },
};

/** What app and environment say of the messages. What only the app says is not known without it. */
interface Settings {
  /** Null where messages are retried for ever: JSON has no `Infinity`. */
  readonly maxAttempts?: Readonly<Record<QueueKind, number | null>>;
  /** Null where dead messages are kept for ever. */
  readonly deadRetentionMs?: number | null | undefined;
}

const settingsOf = ({ maxAttempts, retentions }: AppJobs, hasApp: boolean): Settings => {
  const { deadRetentionMs } = retentions.inbox;
  if (!hasApp) return { deadRetentionMs };
  return {
    maxAttempts: { inbox: finite(maxAttempts.inbox), outbox: finite(maxAttempts.outbox) },
    deadRetentionMs: deadRetentionMs ?? null,
  };
};

const finite = (limit: number): number | null => (Number.isFinite(limit) ? limit : null);

interface Limits {
  readonly maxAgeMs: number;
  readonly maxDead: number;
}

const limitsOf = ({ values }: CommandInput): Limits => ({
  maxAgeMs: seconds(values, "max-age", Number.POSITIVE_INFINITY),
  maxDead: count(values, "max-dead") ?? Number.POSITIVE_INFINITY,
});

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
  settings: Settings,
): Promise<number> {
  const stats = await appStats(stores);
  const { inbox, outbox, controls, unhandled, failed } = stats;
  const { maxAttempts, deadRetentionMs } = settings;
  const at = values.watch ? { at: new Date().toISOString() } : {};
  if (values.json)
    terminal.out(JSON.stringify({ ...at, inbox, outbox, controls, unhandled, ...settings, failed }));
  else {
    if (at.at !== undefined) terminal.out(terminal.columns === undefined ? at.at : `${clear}${at.at}`);
    terminal.out(statusLine("inbox", inbox));
    terminal.out(statusLine("outbox", outbox));
    for (const queue of queueKinds)
      if (maxAttempts?.[queue] === null) terminal.out(queueLine(queue, forEver));
    for (const control of controls) terminal.out(controlLine(control.queue, control));
    for (const topic of unhandled) terminal.out(unhandledLine(topic));
    if (deadRetentionMs !== undefined && deadIn(stats) > 0) terminal.out(retentionLine(deadRetentionMs));
  }
  if (failed === undefined) return isExceeded(stats, limits) ? exitCodes.exceeded : exitCodes.ok;
  terminal.err(`${failed.length} tenants did not respond and are not counted: ${failed.join(", ")}`);
  return exitCodes.failed;
}

/** Such as `topic "stripe.customer.created": no handler, 12 acknowledged, the last at 2026-01-02T03:04:05.000Z`. */
const unhandledLine = ({ topic, messages, lastSeenAt }: UnhandledTopic): string =>
  queueLine(
    "inbox",
    `topic "${printable(topic)}": no handler, ${messages} acknowledged, the last at ${lastSeenAt.toISOString()}`,
  );

const deadIn = ({ inbox, outbox }: AppStats): number => inbox.phases.dead + outbox.phases.dead;

const forEver = "failed messages are retried for ever, unless their handlers say otherwise";

const retentionLine = (retentionMs: number | null): string =>
  retentionMs === null
    ? "dead messages are kept until they are replayed, discarded or archived"
    : `dead messages are deleted ${Math.round((retentionMs / 86_400_000) * 10) / 10} days after their death`;

const isExceeded = (stats: AppStats, { maxAgeMs, maxDead }: Limits): boolean =>
  [stats.inbox, stats.outbox].some(({ oldestDueAgeMs }) => (oldestDueAgeMs ?? 0) > maxAgeMs) ||
  deadIn(stats) > maxDead;

/** A line about a queue. */
export const queueLine = (queue: string, text: string): string => `${queue.padEnd(7)} ${text}`;

/** The numbers of a queue: how many messages are in which state, and how many are due. */
export function statusLine(queue: QueueKind, stats: QueueStats<string>): string {
  const { due, oldestDueAgeMs } = stats;
  const age = oldestDueAgeMs === null ? "" : `, the oldest for ${Math.round(oldestDueAgeMs / 1000)} s`;
  return `${phaseLine(queue, stats.phases)}  (due now: ${due}${age})`;
}

/** Such as `inbox   waiting 3  retrying 1  running 2  paused 0  done 40  dead 5`. Phases that only the inbox has are shown where there are such messages. */
export function phaseLine(queue: QueueKind, counts: QueueStats<string>["phases"]): string {
  const shown = phases.filter((phase) => !inboxPhases.includes(phase) || counts[phase] > 0);
  return queueLine(queue, shown.map((phase) => `${phase} ${counts[phase]}`).join("  "));
}

/** Such as `topic "mail": paused (12 waiting), by alice since 2026-01-02T03:04:05.000Z`. */
export function controlLine(queue: QueueKind, control: Control & { readonly tenant?: string }): string {
  const { scope, name, paused, perSecond, waiting, by, at, tenant } = control;
  const where = tenant === undefined ? "" : `tenant ${printable(tenant)}, `;
  const what = scope === "queue" ? "all messages" : `${scope} "${printable(name!)}"`;
  const limit = perSecond === null ? [] : [`at most ${perSecond} per second`];
  const rules = [...(paused ? ["paused"] : []), ...limit].join(", ");
  const held = waiting === 0 ? "" : ` (${waiting} waiting)`;
  return queueLine(queue, `${where}${what}: ${rules}${held}, by ${printable(by)} since ${at.toISOString()}`);
}

export const partitionsCommand: Command = {
  name: "partitions",
  summary: "list partition keys whose first message holds up the others",
  usage: "partitions [--queue inbox|outbox] [options]",
  options: {
    queue: filterOptions.queue,
    limit: option("the most partition keys of each queue; 50 by default, 1000 at most"),
    ...storeOptions,
    json: flag("print one JSON object per line"),
  },
  examples: ["oncebox partitions", "oncebox partitions --queue outbox --limit 10 --json"],
  async run(input) {
    const { values, terminal } = input;
    const options = { limit: pageSize(values), signal: terminal.signal };
    return withQueues(input, queuesOf(values), async (queue, kind) =>
      printTable(input, await queue.blockedPartitions(options), {
        columns: {
          [`${kind.toUpperCase()} KEY`]: ({ partitionKey }) => partitionKey,
          REASON: ({ reason }) => reason,
          WAITING: ({ waiting }) => waiting,
          SINCE: ({ since }) => since,
          "NEXT ATTEMPT": ({ nextAttemptAt }) => nextAttemptAt,
          HEAD: ({ head }) => keyText(head),
          ERROR: ({ error }) => error,
        },
        json: (one) => ({ queue: kind, ...one, head: keyText(one.head) }),
        none: `${kind}: no partition key is held up`,
      }),
    );
  },
};
