import { type Inbox, newOwnerToken } from "../../src/index.js";
import { operatorsOf } from "../../src/operators/operators-of.js";
import { elapsedMs, median, spread } from "../measure.js";
import { message } from "../messages.js";
import type { Scenario } from "./scenario.js";

const batchSize = 1_000;
const kinds = 10;

/** How long an operator waits for each read when very many messages are dead, beside twice as many Done ones. */
export const deadLetters: Scenario = async ({ database, sizes }) => {
  const { deadLetters: dead, rounds } = sizes;
  const { inbox, close } = await database.openInbox(1, { pending: 0, done: 2 * dead });
  await makeDead(inbox, dead);
  const rows = [];
  for (const [name, read] of Object.entries(await readsOf(inbox))) {
    const times: number[] = [];
    for (let round = 0; round < rounds; round++) times.push(await elapsedMs(read));
    rows.push({
      name: `${name}, of ${dead / 1_000}k dead`,
      database: database.title,
      unit: "calls/s",
      rate: 1_000 / median(times),
      referenceRate: 1,
      ratio: median(times) / 1_000,
      ratioTo: "a second, by its time",
      spread: spread(times),
      target: { atMost: 1 },
    });
  }
  await close();
  return rows;
};

async function makeDead(inbox: Inbox, count: number): Promise<void> {
  const owner = newOwnerToken();
  for (let from = 0; from < count; from += batchSize) {
    await inbox.enqueue(
      Array.from({ length: batchSize }, (_, index) => ({
        ...message(`d-${from + index}`),
        topic: `topic ${index % kinds}`,
        correlationId: `order ${from + index}`,
      })),
    );
    const claimed = await inbox.claim({ owner, batchSize });
    for (let kind = 0; kind < kinds; kind++) {
      const error = `${words[kind]} failed for order ${from}`;
      await inbox.fail(
        owner,
        claimed.filter((_, index) => Math.floor(index / kinds) % kinds === kind),
        error,
      );
    }
  }
}

const words = ["card", "mail", "stock", "label", "tax", "refund", "invoice", "pickup", "rate", "quota"];

async function readsOf(inbox: Inbox): Promise<Readonly<Record<string, () => Promise<unknown>>>> {
  const state = "Dead";
  const [first] = (await inbox.list({ state, limit: 1 })).messages;
  const last = first!.seq + (await operatorsOf(inbox).countDead());
  const [group] = await operatorsOf(inbox).deadGroups({ limit: 1 });
  const { errorGroup } = group!;
  return {
    "first page": () => inbox.list({ state }),
    "page in the middle": () => inbox.list({ state, after: Math.floor((first!.seq + last) / 2) }),
    "page of a topic": () => inbox.list({ state, topic: "topic 7" }),
    "page of an error": () => inbox.list({ state, error: "invoice" }),
    "page of a group": () => inbox.list({ state, errorGroup }),
    "page that finds nothing": () =>
      inbox.list({ state, topic: "none", error: "none", newerThanMs: 86_400_000 }),
    count: () => operatorsOf(inbox).countDead(),
    "count of a topic and an error": () =>
      operatorsOf(inbox).countDead({ topic: "topic 7", error: "invoice" }),
    groups: () => operatorsOf(inbox).deadGroups(),
    "groups of a topic": () => operatorsOf(inbox).deadGroups({ topic: "topic 7" }),
    activity: () => operatorsOf(inbox).activity(),
    "by correlation id": () => operatorsOf(inbox).byCorrelation("order 4711"),
  };
}
