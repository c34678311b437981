import { newOwnerToken } from "../../src/index.js";
import { message } from "../messages.js";
import type { ResultRow } from "../report.js";
import type { Scenario } from "./scenario.js";

const times = 20;
const batchSize = 50;

/** Counted, not timed: over a network each one costs more than anything else here. */
export const roundTrips: Scenario = async ({ database }) => {
  const opened = await database.openInbox(1, { pending: times * batchSize, done: 0 });
  const { inbox } = opened;
  const owner = newOwnerToken();
  const claimAndAck = async () => inbox.ack(owner, await inbox.claim({ owner, batchSize }));

  const perCall = async (work: (index: number) => Promise<unknown>): Promise<number> => {
    const all = async () => {
      for (let index = 0; index < times; index++) await work(index);
    };
    return (await database.countRoundTrips(opened, all)) / times;
  };
  const row = (name: string, counted: number, expected: number): ResultRow => ({
    name,
    database: database.title,
    unit: "round trips",
    rate: counted,
    referenceRate: expected,
    ratio: counted / expected,
    ratioTo: `${expected} at best`,
    spread: 0,
    target: { atMost: 1 },
  });
  const rows = [
    row("round trips of a receive", await perCall((index) => inbox.receive(message(`new-${index}`))), 1),
    row(`round trips of claim + ack of ${batchSize}`, await perCall(claimAndAck), 2),
  ];
  await opened.close();
  return rows;
};
