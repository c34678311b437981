import { type Inbox, newOwnerToken } from "../../src/index.js";
import { type Contender, compare, ratePerSecond } from "../measure.js";
import { message } from "../messages.js";
import type { Scenario } from "./scenario.js";

const batchSize = 50;
const slices = 9;
const keyCount = 1_000;
const waitingCount = 10_000;

/**
 * Claim and acknowledge until the queue is empty: messages of a thousand partition keys, and messages without a key
 * beside ten thousand in partition queues; both against messages without a key alone. All are filled the same way.
 */
export const partitions: Scenario = async ({ database, sizes }) => {
  const slice = Math.floor(sizes.drained / (slices + 1) / batchSize) * batchSize;
  const count = slice * (slices + 1);
  const common = { database: database.title, unit: "messages/s", ratioTo: "the same without any key" };
  const rounds = { rounds: slices, maxMs: sizes.maxMs };

  const measured = async (fillOther: (inbox: Inbox) => Promise<void>) => {
    const other = await database.openInbox(1);
    const plain = await database.openInbox(1);
    await fillOther(other.inbox);
    await fill(plain.inbox, count);
    const result = await compare(draining(other.inbox, slice), draining(plain.inbox, slice), rounds);
    await other.close();
    await plain.close();
    return result;
  };

  return [
    {
      name: `drain ${count.toLocaleString("en-US")} of ${keyCount.toLocaleString("en-US")} keys`,
      ...common,
      ...(await measured((inbox) => fill(inbox, count, (index) => `key-${index % keyCount}`))),
    },
    {
      name: `drain without keys beside ${waitingCount.toLocaleString("en-US")} in partition queues`,
      ...common,
      ...(await measured(async (inbox) => {
        await fill(inbox, waitingCount, (index) => `key-${index % keyCount}`, tomorrow());
        await fill(inbox, count);
      })),
      target: { atLeast: 0.95 },
    },
  ];
};

async function fill(
  inbox: Inbox,
  count: number,
  keyOf?: (index: number) => string,
  dueAt?: Date,
): Promise<void> {
  const most = 500;
  for (let from = 0; from < count; from += most) {
    const indexes = Array.from({ length: Math.min(most, count - from) }, (_, index) => from + index);
    await inbox.enqueue(
      indexes.map((index) => ({
        ...message(`${dueAt === undefined ? "m" : "later"}-${index}`),
        partitionKey: keyOf?.(index),
        dueAt,
      })),
    );
  }
}

/** When no head of a partition queue is due, all of its messages wait. */
const tomorrow = (): Date => new Date(Date.now() + 86_400_000);

const draining = (inbox: Inbox, slice: number): Contender => {
  const owner = newOwnerToken();
  return () =>
    ratePerSecond(slice, async () => {
      for (let settled = 0; settled < slice; ) {
        const messages = await inbox.claim({ owner, batchSize });
        const { changed } = await inbox.ack(owner, messages);
        if (changed.length !== batchSize)
          throw new Error(`partitions: a batch of ${changed.length} was settled instead of ${batchSize}.`);
        settled += batchSize;
      }
    });
};
