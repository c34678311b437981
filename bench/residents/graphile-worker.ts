import { EventEmitter } from "node:events";
import { Logger, makeWorkerUtils, run, type WorkerEvents } from "graphile-worker";
import { payloadBytes } from "../messages.js";
import type { OpenResident } from "./resident.js";

const text = "x".repeat(payloadBytes);

/**
 * Each of its ten workers polls by itself, unless there is a local queue, which polls for all of them. It has one where it
 * polls, so that the intervals are the same as everybody's. Where it is woken, a worker that fetches its own job is the
 * quicker way.
 */
const localQueue = { size: 50 };

export const openGraphileWorker: OpenResident = async (url, schema, settings) => {
  const { wake, pollMs, concurrency, handle } = settings;
  const logger = new Logger(() => () => {});
  const utils = await makeWorkerUtils({ connectionString: url, schema, logger });
  await utils.migrate();
  const events: WorkerEvents = new EventEmitter();
  // It always listens, so its connection is told to stop, after it was told to listen.
  if (wake === "poll")
    events.on("pool:listen:success", ({ client }) => {
      setImmediate(() => void client.query('unlisten "jobs:insert"'));
    });
  const handler = (kind: "slow" | "quick") => async (payload: unknown) =>
    handle(kind, (payload as { id: number }).id);
  await run({
    preset: {
      worker: {
        connectionString: url,
        schema,
        concurrentJobs: concurrency,
        maxPoolSize: concurrency + 1,
        pollInterval: pollMs,
        ...(wake === "poll" ? { localQueue } : {}),
      },
    },
    logger,
    events,
    noHandleSignals: true,
    taskList: { slow: handler("slow"), quick: handler("quick") },
  });
  return { add: (kind, id) => utils.addJob(kind, { id, text }) };
};
