import { newOwnerToken } from "../../src/index.js";
import { compare, ratePerSecond } from "../measure.js";
import type { Scenario } from "./scenario.js";

const batchSize = 50;
/** Few enough that one lasts tens of milliseconds even on SQLite, and a passing hiccup is not all of it. */
const slices = 9;

/**
 * Claim and acknowledge until the queue is empty, in slices that alternate; against the fastest bare
 * loop over narrow rows. Every slice of both is checked to have settled what it claimed.
 */
export const drain: Scenario = async ({ database, databaseName, sizes }) => {
  const slice = Math.ceil(sizes.drained / slices / batchSize) * batchSize;
  const pending = slice * (slices + sizes.warmUps);
  const opened = await database.openInbox(1, { pending, done: 0 });
  const bare = await database.openBareQueue(pending);
  const owner = newOwnerToken();

  const draining = (claimAndAck: () => Promise<number>) => () =>
    ratePerSecond(slice, async () => {
      for (let settled = 0; settled < slice; ) {
        const batch = await claimAndAck();
        if (batch !== batchSize)
          throw new Error(`drain: a batch of ${batch} was settled instead of ${batchSize}.`);
        settled += batch;
      }
    });
  const withOncebox = draining(async () => {
    const messages = await opened.inbox.claim({ owner, batchSize });
    return (await opened.inbox.ack(owner, messages)).changed.length;
  });
  const withBare = draining(async () => bare.ack(await bare.claim(batchSize)));

  const result = await compare(withOncebox, withBare, {
    rounds: slices,
    maxMs: sizes.maxMs,
    warmUps: sizes.warmUps,
  });
  await opened.close();
  await bare.close();
  return [
    {
      name: `drain ${sizes.drained.toLocaleString("en-US")} in ${batchSize}s`,
      database: database.title,
      unit: "messages/s",
      ...result,
      ratioTo: "the fastest bare loop, narrow rows",
      target: { atLeast: databaseName === "sqlite" ? 0.4 : 0.8 },
    },
  ];
};
