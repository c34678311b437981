import { PgBoss } from "pg-boss";
import { payloadBytes } from "../messages.js";
import type { JobKind, OpenResident } from "./resident.js";

const text = "x".repeat(payloadBytes);

/**
 * A kind of job is a queue of its own, as its pages have it, and each has one worker that fetches batches: more than one
 * would poll more often than the others do.
 */
export const openPgBoss: OpenResident = async (url, schema, { wake, pollMs, concurrency, handle }) => {
  const isWoken = wake === "notify";
  const boss = new PgBoss({
    connectionString: url,
    schema,
    max: concurrency,
    supervise: false,
    schedule: false,
    useListenNotify: isWoken,
  });
  boss.on("error", (error) => console.error("pg-boss:", error.message));
  await boss.start();
  const work = async (queue: JobKind, batchSize: number): Promise<void> => {
    await boss.createQueue(queue, { notify: isWoken });
    const options = { batchSize, pollingIntervalSeconds: pollMs / 1000 };
    await boss.work<{ id: number }>(queue, options, async (jobs) => {
      await Promise.all(jobs.map(({ data }) => handle(queue, data.id)));
    });
  };
  await work("slow", 1);
  await work("quick", 50);
  return { add: (kind, id) => boss.send(kind, { id, text }) };
};
