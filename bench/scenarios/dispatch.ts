import { createDispatcher, type InboxMessage } from "../../src/index.js";
import type { OpenInbox } from "../databases/bench-database.js";
import { type Contender, compare, elapsedMs, ratePerSecond } from "../measure.js";
import type { Scenario } from "./scenario.js";

const batchSize = 50;
const slices = 9;
/** As `openPostgres` has by default: a claim and an acknowledgement can be on their way at once. */
const connections = 4;

/** No-op handlers behind the dispatcher, as a function runs it; against a bare claim-and-ack loop. */
export const dispatch: Scenario = async ({ database, sizes }) => {
  // compare() runs one slice more, to warm up
  const slice = Math.floor(sizes.drained / (slices + 1) / batchSize) * batchSize;
  // a slice is ended by a signal, and what is already being handled then is one of it
  const opened = await database.openInbox(connections, { pending: sizes.drained + 1_000, done: 0 });
  const bare = await database.openBareQueue(sizes.drained);
  const withBare: Contender = () =>
    ratePerSecond(slice, async () => {
      for (let settled = 0; settled < slice; ) settled += await bare.ack(await bare.claim(batchSize));
    });
  const result = await compare(dispatching(opened, slice), withBare, { rounds: slices, maxMs: sizes.maxMs });
  await opened.close();
  await bare.close();
  return [
    {
      name: `dispatch ${sizes.drained.toLocaleString("en-US")}`,
      database: database.title,
      unit: "messages/s",
      ...result,
      ratioTo: "the fastest bare loop, narrow rows",
      target: { atLeast: database.title === "SQLite" ? 0.7 : 0.8 },
    },
  ];
};

/** Runs until so many have been handled, and answers the rate at which they were acknowledged. */
function dispatching({ inbox }: OpenInbox, slice: number): Contender {
  let stop = new AbortController();
  let left = 0;
  const dispatcher = createDispatcher<InboxMessage>({
    handlers: {
      "order.created": () => {
        if (--left === 0) stop.abort();
      },
    },
  });
  return async () => {
    stop = new AbortController();
    left = slice;
    let acked = 0;
    const ms = await elapsedMs(async () => {
      const budget = { signal: stop.signal, remainingMs: () => 60_000 };
      ({ acked } = await dispatcher.run(inbox, budget));
    });
    if (acked < slice) throw new Error(`dispatch: ${acked} were acknowledged instead of ${slice}.`);
    return (acked / ms) * 1000;
  };
}
