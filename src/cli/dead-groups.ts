import { keyText } from "../admin/page/key-text.js";
import { type AnyKey, type QueueKind, queueOf } from "../queue/any-queue.js";
import type { DeadGroup } from "../queue/dead-letters.js";
import { type CommandInput, exitCodes, pageSize } from "./command.js";
import { deadFilterOf, groupName, queuesOf } from "./message-filter.js";
import { type QueueStores, withStores } from "./queue-stores.js";
import { tableLines } from "./table.js";

/** Prints the dead messages of each queue by error, the largest group first. */
export const listDeadGroups = (input: CommandInput): Promise<number> => {
  const queues = queuesOf(input.values);
  return withStores(input, async (stores) => {
    for (const queue of queues) await printGroups(input, stores, queue);
    return exitCodes.ok;
  });
};

async function printGroups(
  { values, terminal }: CommandInput,
  stores: QueueStores,
  queue: QueueKind,
): Promise<void> {
  const limit = pageSize(values);
  const filter = { ...deadFilterOf(values), limit, signal: terminal.signal };
  const groups = await queueOf(stores, queue).deadGroups(filter);
  if (values.json) for (const group of groups) terminal.out(JSON.stringify(shown(queue, group)));
  else if (groups.length === 0) terminal.out(`${queue}: no dead messages`);
  else {
    const head = [`${queue.toUpperCase()} GROUP`, "COUNT", "FIRST", "LAST", "EXAMPLE", "ERROR"];
    for (const line of tableLines(head, groups.map(row), terminal.columns)) terminal.out(line);
  }
}

const shown = (queue: QueueKind, group: DeadGroup<AnyKey>): object => ({
  queue,
  ...group,
  errorGroup: groupName(group.errorGroup),
  example: keyText(group.example),
});

const row = (group: DeadGroup<AnyKey>): readonly string[] => [
  groupName(group.errorGroup),
  String(group.count),
  group.firstAt.toISOString(),
  group.lastAt.toISOString(),
  keyText(group.example),
  group.error ?? "",
];
