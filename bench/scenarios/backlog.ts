import { newOwnerToken } from "../../src/index.js";
import type { OpenInbox } from "../databases/bench-database.js";
import { compare, elapsedMs, median } from "../measure.js";
import type { Scenario } from "./scenario.js";

const batchSize = 50;

/** How long a claim takes with much waiting and much done, against one with little: a queue must not slow down. */
export const backlog: Scenario = async ({ database, sizes }) => {
  const small = await database.openInbox(1, { pending: sizes.smallBacklog, done: 0 });
  const large = await database.openInbox(1, { pending: sizes.largeBacklog, done: sizes.largeBacklog });
  const result = await compare(
    claiming(large, sizes.claimsPerRound),
    claiming(small, sizes.claimsPerRound),
    sizes,
  );
  await small.close();
  await large.close();
  return [
    {
      name: `claim at ${short(sizes.largeBacklog)} pending + ${short(sizes.largeBacklog)} Done`,
      database: database.title,
      unit: "claims/s",
      ...result,
      // of the times, not of the rates
      ratio: 1 / result.ratio,
      ratioTo: `its time at ${short(sizes.smallBacklog)} pending`,
      target: { atMost: 1.5 },
    },
  ];
};

/** Only the claim is timed; the release keeps the backlog as long as it was, and sends the batch to its end. */
const claiming =
  ({ inbox }: OpenInbox, claims: number) =>
  async (): Promise<number> => {
    const owner = newOwnerToken();
    const times: number[] = [];
    for (let claim = 0; claim < claims; claim++) {
      const claimed: Awaited<ReturnType<typeof inbox.claim>>[] = [];
      times.push(await elapsedMs(async () => claimed.push(await inbox.claim({ owner, batchSize }))));
      await inbox.release(owner, claimed[0]!);
    }
    return 1000 / median(times);
  };

const short = (count: number): string => (count >= 1_000_000 ? `${count / 1_000_000}M` : `${count / 1_000}k`);
