import { InvalidArgumentError } from "../errors.js";
import { queueOf } from "../queue/any-queue.js";
import { type Change, pastOf } from "./change.js";
import { type CommandInput, exitCodes, text } from "./command.js";
import { type Begun, finishOperations } from "./finish-operations.js";
import { deadFilterOf, queuesOf } from "./message-filter.js";
import { operatorName } from "./operator-name.js";
import type { QueueStores } from "./queue-stores.js";

/** Replays, discards or archives the dead messages that match. */
export async function changeMany(
  change: Change,
  input: CommandInput,
  stores: QueueStores,
  rate: number | undefined,
): Promise<number> {
  const { values, terminal } = input;
  const filter = { ...deadFilterOf(values), signal: terminal.signal };
  const found = [];
  for (const queue of queuesOf(values))
    found.push({ queue, matched: await queueOf(stores, queue).countDead(filter) });
  const matched = found.reduce((total, one) => total + one.matched, 0);
  if (matched === 0) terminal.err("No dead message matches.");
  if (!values["dry-run"]) {
    const queues = found.filter(({ matched }) => matched > 0).map(({ queue }) => queue);
    return finishOperations(change, input, stores, await begin(change, input, stores, queues), {
      ratePerSecond: rate,
    });
  }
  const result = { matched, [pastOf[change]]: 0 };
  terminal.out(values.json ? JSON.stringify(result) : `${matched} would be ${pastOf[change]}.`);
  return exitCodes.ok;
}

/** Records the operations of all queues before the first message is changed: what dies meanwhile is not part of them. */
async function begin(
  change: Change,
  { values, terminal }: CommandInput,
  stores: QueueStores,
  queues: readonly Begun["queue"][],
): Promise<readonly Begun[]> {
  const options = { by: operatorName(values), signal: terminal.signal };
  const begun: Begun[] = [];
  for (const queue of queues) {
    const operation = await queueOf(stores, queue).startOperation(change, deadFilterOf(values), options);
    terminal.err(`Operation ${operation.id}: ${operation.matched} in the ${queue}.`);
    begun.push({ queue, operation });
  }
  return begun;
}

/** Goes on with an operation that was interrupted. */
export async function resumeChange(
  change: Change,
  input: CommandInput,
  stores: QueueStores,
  rate: number | undefined,
): Promise<number> {
  const { values, terminal } = input;
  const id = text(values, "resume")!.toLowerCase();
  for (const queue of queuesOf(values)) {
    const operation = await queueOf(stores, queue).operation(id, { signal: terminal.signal });
    if (operation === null) continue;
    if (operation.action !== change)
      throw new InvalidArgumentError(
        `The operation ${id} is of the action ${operation.action}, not ${change}.`,
      );
    return finishOperations(change, input, stores, [{ queue, operation }], {
      ratePerSecond: rate,
      resumedBy: operatorName(values),
    });
  }
  throw new InvalidArgumentError(`There is no operation "${id}". \`oncebox dead operations\` shows them.`);
}
