import { keyText } from "../admin/page/key-text.js";
import { type AnyKey, type QueueKind, queueOf } from "../queue/any-queue.js";
import type { BlockedPartition } from "../queue/operator-reads.js";
import { type Command, type CommandInput, exitCodes, pageSize } from "./command.js";
import { filterHelp, filterOptions, queuesOf } from "./message-filter.js";
import { type QueueStores, storeHelp, storeOptions, withStores } from "./queue-stores.js";
import { tableLines } from "./table.js";

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
    for (const line of tableLines(head, found.map(row), terminal.columns)) terminal.out(line);
  }
}

const row = (one: BlockedPartition<AnyKey>): readonly string[] => [
  one.partitionKey,
  one.reason,
  String(one.waiting),
  one.since.toISOString(),
  one.nextAttemptAt?.toISOString() ?? "",
  keyText(one.head),
  one.error ?? "",
];
