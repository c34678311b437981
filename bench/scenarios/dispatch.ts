import { omitUndefined } from "../../src/base/defined.js";
import {
  createDispatcher,
  type DispatchResult,
  type InboxMessage,
  type Telemetry,
  timeBudget,
} from "../../src/index.js";
import type { OpenInbox } from "../databases/bench-database.js";
import { type Contender, compare, type Rounds, ratePerSecond } from "../measure.js";
import { message } from "../messages.js";
import type { Sizes } from "../options.js";
import type { PeerName } from "../peers/peer.js";
import { notMeasured, type ResultRow } from "../report.js";
import type { Scenario, ScenarioInput } from "./scenario.js";

const batchSize = 50;
export const slices = 9;
/** As `openPostgres` has by default: a claim and an acknowledgement can be on their way at once. */
export const connections = 4;

/** What the other queues' settings for speed amount to. */
const largeBatch = 500;

/** No-op handlers behind the dispatcher; against a bare claim-and-ack loop, and other queues where there are any. */
export const dispatch: Scenario = async (input) => {
  const rows = [await againstBare(input)];
  for (const name of input.database.peers) rows.push(await againstPeer(input, name));
  return rows;
};

const common = ({ database, sizes }: ScenarioInput) => ({
  name: `dispatch ${sizes.drained.toLocaleString("en-US")}`,
  database: database.title,
  unit: "messages/s",
});

/** In slices of one backlog that alternate, each ended by a signal as a function's is by its time. */
async function againstBare(input: ScenarioInput): Promise<ResultRow> {
  const { database, sizes } = input;
  const slice = sliceOf(sizes);
  // what is being handled when the signal comes still belongs to the slice
  const pending = slice * (slices + sizes.warmUps);
  const opened = await database.openInbox(connections, { pending: pending + 2_000, done: 0 });
  const bare = await database.openBareQueue(pending);
  const draining: Contender = () =>
    ratePerSecond(slice, async () => {
      for (let settled = 0; settled < slice; ) settled += await bare.ack(await bare.claim(batchSize));
    });
  const result = await compare(dispatching(opened, slice), draining, roundsOf(sizes));
  await opened.close();
  await bare.close();
  const target = { atLeast: input.databaseName === "sqlite" ? 0.4 : 0.9 };
  return { ...common(input), ...result, ratioTo: "the fastest bare loop, narrow rows", target };
}

const leastAgainst: Readonly<Record<PeerName, number>> = {
  "pg-boss": 1.7,
  "graphile-worker": 1.8,
  plainjob: 3,
};

/** Both are filled and then run until they are empty, every round. */
async function againstPeer(input: ScenarioInput, name: PeerName): Promise<ResultRow> {
  const { database, sizes } = input;
  const target = { atLeast: leastAgainst[name] };
  const peer = await database.startPeer(name).catch((error: Error) => error);
  if (peer instanceof Error)
    return { ...common(input), ...notMeasured, ratioTo: `${name}, not measured: ${peer.message}`, target };
  const opened = await database.openInbox(connections);
  // twice a slice, because starting and stopping count
  const count = 2 * sliceOf(sizes);
  const result = await compare(fillingAndDraining(opened, count), () => peer.drain(count), roundsOf(sizes));
  await opened.close();
  await peer.close();
  const batches = name === "plainjob" ? "one job at a time" : `batches of ${largeBatch} and more`;
  return { ...common(input), ...result, ratioTo: `${name}, ${batches}`, target };
}

export const sliceOf = ({ drained }: Sizes): number => Math.ceil(drained / slices / batchSize) * batchSize;
export const roundsOf = ({ maxMs, warmUps }: Sizes): Rounds => ({ rounds: slices, maxMs, warmUps });

/** A slice with handlers that do nothing; `make` may be the dispatcher of another checkout. */
export function dispatching(
  { inbox }: Pick<OpenInbox, "inbox">,
  slice: number,
  telemetry: Telemetry = {},
  make = createDispatcher,
): Contender {
  let stop = new AbortController();
  let left = 0;
  const stopAtEnd = (): void => {
    if (--left === 0) stop.abort();
  };
  const dispatcher = make<InboxMessage>({
    batchSize,
    handlers: { "order.created": stopAtEnd },
    ...omitUndefined(telemetry),
  });
  return async () => {
    stop = new AbortController();
    left = slice;
    return rateOf(() => dispatcher.run(inbox, timeBudget(60_000, stop.signal)), slice);
  };
}

function fillingAndDraining({ inbox }: OpenInbox, count: number): Contender {
  const dispatcher = createDispatcher<InboxMessage>({
    batchSize: largeBatch,
    handlers: { "order.created": () => {} },
  });
  return async (round) => {
    for (let from = 0; from < count; from += largeBatch) {
      const ids = Array.from({ length: Math.min(largeBatch, count - from) }, (_, index) => from + index);
      await inbox.enqueue(ids.map((id) => message(`${round}-${id}`)));
    }
    return rateOf(() => dispatcher.run(inbox, timeBudget(60_000)), count);
  };
}

/** At which a run acknowledged at least as many as it should have. */
async function rateOf(run: () => Promise<DispatchResult>, least: number): Promise<number> {
  const startedAt = performance.now();
  const { acked } = await run();
  const ms = performance.now() - startedAt;
  if (acked < least) throw new Error(`dispatch: ${acked} were acknowledged instead of ${least}.`);
  return (acked / ms) * 1000;
}
