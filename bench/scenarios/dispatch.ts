import { createDispatcher, type InboxMessage } from "../../src/index.js";
import type { BenchDatabase, OpenInbox } from "../databases/bench-database.js";
import { type Contender, compare, elapsedMs, type Rounds, ratePerSecond } from "../measure.js";
import { type PeerName, peerNames } from "../peers/peer.js";
import type { ResultRow } from "../report.js";
import type { Scenario } from "./scenario.js";

const batchSize = 50;
const slices = 9;
/** As `openPostgres` has by default: a claim and an acknowledgement can be on their way at once. */
const connections = 4;

/**
 * No-op handlers behind the dispatcher, as a function runs it, in slices that take turns; against a bare claim-and-ack
 * loop, and against other queues where there are any.
 */
export const dispatch: Scenario = async ({ database, sizes }) => {
  // compare() runs one slice more, to warm up
  const slice = Math.floor(sizes.drained / (slices + 1) / batchSize) * batchSize;
  const rounds: Rounds = { rounds: slices, maxMs: sizes.maxMs };
  const common = {
    name: `dispatch ${sizes.drained.toLocaleString("en-US")}`,
    database: database.title,
    unit: "messages/s",
  };

  const againstBare = async (): Promise<ResultRow> => {
    const bare = await database.openBareQueue(sizes.drained);
    const draining: Contender = () =>
      ratePerSecond(slice, async () => {
        for (let settled = 0; settled < slice; ) settled += await bare.ack(await bare.claim(batchSize));
      });
    const result = await comparedWith(draining);
    await bare.close();
    const target = { atLeast: database.startPeer === undefined ? 0.7 : 0.8 };
    return { ...common, ...result, ratioTo: "the fastest bare loop, narrow rows", target };
  };

  const againstPeer = async (
    name: PeerName,
    startPeer: NonNullable<BenchDatabase["startPeer"]>,
  ): Promise<ResultRow> => {
    const target = { atLeast: 1.7 };
    const peer = await startPeer(name).catch((error: Error) => error);
    if (peer instanceof Error)
      return {
        ...common,
        ...notMeasured,
        ratioTo: `${name}, which could not be had: ${peer.message}`,
        target,
      };
    // twice as many, because it is started and stopped every time
    const result = await comparedWith(() => peer.drain(2 * slice));
    await peer.close();
    return { ...common, ...result, ratioTo: name, target };
  };

  const comparedWith = async (reference: Contender) => {
    // a slice is ended by a signal, and what is being handled then belongs to it
    const opened = await database.openInbox(connections, { pending: sizes.drained + 1_000, done: 0 });
    const result = await compare(dispatching(opened, slice), reference, rounds);
    await opened.close();
    return result;
  };

  const rows = [await againstBare()];
  if (database.startPeer !== undefined)
    for (const name of peerNames) rows.push(await againstPeer(name, database.startPeer));
  return rows;
};

const notMeasured = { rate: Number.NaN, referenceRate: Number.NaN, ratio: Number.NaN, spread: Number.NaN };

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
