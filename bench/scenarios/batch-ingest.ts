import type { IncomingMessage } from "../../src/index.js";
import { compare, ratePerSecond } from "../measure.js";
import { message } from "../messages.js";
import type { Scenario } from "./scenario.js";

const batchSize = 100;

/** A hundred messages a call; against a hundred in one bare statement or transaction. */
export const batchIngest: Scenario = async ({ database, databaseName, sizes }) => {
  const batches = sizes.batchesPerRound[databaseName];
  const opened = await database.openInbox(1);
  const bare = await database.openBareIngest(1);
  const ingesting = (work: (messages: readonly IncomingMessage[]) => Promise<unknown>) => (round: number) => {
    const made = Array.from({ length: batches }, (_, batch) =>
      Array.from({ length: batchSize }, (_, index) => message(`${round}-${batch}-${index}`)),
    );
    return ratePerSecond(batches * batchSize, async () => {
      for (const messages of made) await work(messages);
    });
  };
  const result = await compare(ingesting(opened.inbox.enqueue), ingesting(bare.receiveMany), sizes);
  await opened.close();
  await bare.close();
  return [
    {
      name: `batch ingest of ${batchSize}`,
      database: database.title,
      unit: "messages/s",
      ...result,
      ratioTo: "bare batch upsert, one wide table",
    },
  ];
};
