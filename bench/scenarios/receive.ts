import type { IncomingMessage } from "../../src/index.js";
import { compare, inParallel, ratePerSecond } from "../measure.js";
import { message } from "../messages.js";
import type { ResultRow } from "../report.js";
import type { Scenario, ScenarioInput } from "./scenario.js";

type Mix = "unique" | "half duplicates";

/** One message a call, as webhooks come; against a single-row upsert into one wide table. */
export const receive: Scenario = async (input) => {
  const rows: ResultRow[] = [];
  for (const concurrency of [1, 32]) {
    for (const mix of ["unique", "half duplicates"] as const)
      rows.push(await measure(input, concurrency, mix));
  }
  return rows;
};

async function measure(input: ScenarioInput, concurrency: number, mix: Mix): Promise<ResultRow> {
  const { database, databaseName, sizes } = input;
  const count = sizes.receivesPerRound[databaseName];
  const opened = await database.openInbox(concurrency);
  const bare = await database.openBareIngest(concurrency);
  const receiving = (work: (message: IncomingMessage) => Promise<unknown>) => (round: number) => {
    const messages = Array.from({ length: count }, (_, index) => message(idOf(mix, round, index)));
    return ratePerSecond(count, () => inParallel(count, concurrency, (index) => work(messages[index]!)));
  };
  const result = await compare(receiving(opened.inbox.receive), receiving(bare.receive), sizes);
  await opened.close();
  await bare.close();
  return {
    name: `receive ×${concurrency}, ${mix}`,
    database: database.title,
    unit: "messages/s",
    ...result,
    ratioTo: "bare single-row upsert, one wide table",
    target: { atLeast: databaseName === "sqlite" ? 0.5 : 0.85 },
  };
}

/** Every second message of a round is one of the round before: redeliveries come later, not at once. */
function idOf(mix: Mix, round: number, index: number): string {
  const again = mix === "half duplicates" && index % 2 === 1 && round > 0;
  return again ? `${round - 1}-${index - 1}` : `${round}-${index}`;
}
