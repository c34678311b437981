import { keyText } from "../admin/page/key-text.js";
import { type AnyKey, queueOf } from "../queue/any-queue.js";
import type { Operation } from "../queue/dead-letters.js";
import { type CommandInput, exitCodes, pageSize } from "./command.js";
import { queuesOf } from "./message-filter.js";
import { withStores } from "./queue-stores.js";
import { tableLines } from "./table.js";

/** Of each queue: enough to find an unfinished one among them. */
const mostRecords = 1_000;

/** Prints the records of operations, and of pauses and limits: the unfinished ones, then the newest. */
export const listOperations = ({ values, ...input }: CommandInput): Promise<number> => {
  const queues = queuesOf(values);
  const limit = pageSize(values);
  const { terminal } = input;
  return withStores({ values, ...input }, async (stores) => {
    const all: Operation[] = [];
    for (const queue of queues)
      all.push(...(await queueOf(stores, queue).operations({ limit: mostRecords, signal: terminal.signal })));
    const operations = all.sort(unfinishedFirst).slice(0, limit);
    if (values.json) for (const operation of operations) terminal.out(JSON.stringify(operation));
    else if (operations.length === 0) terminal.out("no operations");
    else for (const line of tableLines(head, operations.map(row), terminal.columns)) terminal.out(line);
    return exitCodes.ok;
  });
};

const unfinishedFirst = (a: Operation, b: Operation): number =>
  Number(a.endedAt !== null) - Number(b.endedAt !== null) || b.at.getTime() - a.at.getTime();

const head = ["OPERATION", "ACTION", "QUEUE", "BY", "BEGAN", "RESUMED", "ENDED", "DONE", "WHICH"];

const row = (operation: Operation): readonly string[] => [
  operation.id,
  operation.action,
  operation.queue,
  operation.by,
  operation.at.toISOString(),
  resumed(operation),
  operation.endedAt?.toISOString() ?? "unfinished",
  operation.matched === 0 ? "-" : `${operation.done} of ${operation.matched}`,
  whichText(operation),
];

const resumed = ({ resumedBy, resumedAt }: Operation): string =>
  resumedBy === null ? "-" : `by ${resumedBy} ${resumedAt!.toISOString()}`;

/** Such as `topic=mail.welcome olderThanMs=60000`, or `all`. */
function whichText({ action, filter }: Operation): string {
  const { perSecond, ...conditions } = filter;
  const rate = perSecond === null ? "no limit" : `at most ${perSecond} per second`;
  const texts = Object.entries(conditions).map(([name, value]) => `${name}=${valueText(value)}`);
  return `${texts.join(" ") || "all"}${action === "limit" ? `: ${rate}` : ""}`;
}

/** The keys of messages as the other commands take them. */
function valueText(value: unknown): string {
  if (Array.isArray(value)) return value.map(valueText).join(",");
  return typeof value === "object" && value !== null ? keyText(value as AnyKey) : String(value);
}
