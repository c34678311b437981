import { PgBoss } from "pg-boss";
import { payloadBytes } from "../messages.js";
import { jobCounter, type OpenPeer } from "./peer.js";

const queue = "bench";

/**
 * Fetches whole batches without a pause while they are full. Tried with 100, 500 and 1,000 in a batch and 1, 2 and 4
 * workers: more than two gained nothing that lasted, smaller batches lost a quarter or more.
 */
const settings = {
  batchSize: 1_000,
  localConcurrency: 2,
  burstWhenBatchFull: true,
  pollingIntervalSeconds: 0.5,
};

export const openPgBoss: OpenPeer = async (url, schema) => {
  const boss = new PgBoss({ connectionString: url, schema, max: 10, supervise: false, schedule: false });
  boss.on("error", (error) => console.error("pg-boss:", error.message));
  await boss.start();
  await boss.createQueue(queue);
  const data = { text: "x".repeat(payloadBytes) };
  return {
    async fill(count) {
      for (let left = count; left > 0; left -= 500) {
        await boss.insert(
          queue,
          Array.from({ length: Math.min(left, 500) }, () => ({ data })),
        );
      }
    },
    async drain(count) {
      const counter = jobCounter(count);
      await boss.work(queue, settings, async (jobs) => counter.count(jobs.length));
      const rate = await counter.rate;
      await boss.offWork(queue);
      return rate;
    },
    close: () => boss.stop({ graceful: false }),
  };
};
