import { Logger, makeWorkerUtils, run } from "graphile-worker";
import { payloadBytes } from "../messages.js";
import { jobCounter, type OpenPeer } from "./peer.js";

/** As on its page about performance: a local queue, and completions in batches. */
const settings = {
  concurrentJobs: 24,
  maxPoolSize: 25,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};

export const openGraphileWorker: OpenPeer = async (url, schema) => {
  const logger = new Logger(() => () => {});
  const utils = await makeWorkerUtils({ connectionString: url, schema, logger });
  await utils.migrate();
  const payload = { text: "x".repeat(payloadBytes) };
  return {
    async fill(count) {
      for (let left = count; left > 0; left -= 500) {
        await utils.addJobs(
          Array.from({ length: Math.min(left, 500) }, () => ({ identifier: "nothing", payload })),
        );
      }
    },
    async drain(count) {
      const counter = jobCounter(count);
      const runner = await run({
        preset: { worker: { ...settings, connectionString: url, schema } },
        logger,
        noHandleSignals: true,
        taskList: { nothing: () => counter.count(1) },
      });
      const rate = await counter.rate;
      await runner.stop();
      return rate;
    },
    close: async () => {
      await utils.release();
    },
  };
};
