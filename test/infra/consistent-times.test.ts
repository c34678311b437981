import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { parseTimeout } from "../../src/adapters/azure/function-timeout.js";
import { readAzureSettings } from "../../src/config/azure-settings.js";
import { createDispatcher, createInbox, migrate, timeBudget } from "../../src/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { defaults } from "../../src/sql/store-options.js";
import { root } from "../support/markdown.js";

/**
 * The times of both templates against each other. A dispatcher's lease is shorter than its function's time-out, which is
 * safe only because it renews what runs long; the first test holds that, and the others what follows from it.
 */
const minute = 60_000;
const { leaseMs, retentionMs } = defaults;
const read = async (file: string) => parse(await readFile(join(root, file), "utf8"));

describe("times that depend on each other", () => {
  it("FUN-03 FUN-10 a lease is renewed while its message is handled, so it may be shorter than a time-out", async () => {
    const db = openSqlite({ file: ":memory:" });
    await migrate(db);
    const inbox = createInbox(db);
    await inbox.receive({ source: "s", messageId: "1", topic: "slow", payload: "" });
    const renewed: number[] = [];
    const watched = {
      ...inbox,
      renew: (...args: Parameters<typeof inbox.renew>) => {
        renewed.push(args[2]);
        return inbox.renew(...args);
      },
    };
    const dispatcher = createDispatcher({
      leaseMs: 300,
      handlers: {
        // It ends when its lease has been renewed often enough to have ended three times over.
        slow: async () => {
          while (renewed.length < 10) await new Promise((resolve) => setTimeout(resolve, 10));
        },
      },
    });
    const result = await dispatcher.run(watched, timeBudget(30_000));
    expect(result).toMatchObject({ acked: 1, lost: 0 });
    expect(renewed.length).toBeGreaterThanOrEqual(10);
    await db.close();
  });

  describe("on AWS", () => {
    interface AwsFunction {
      readonly timeout: number;
      readonly maximumEventAge?: number;
      readonly events: readonly { readonly schedule?: { readonly rate: string }; readonly sqs?: object }[];
    }
    let functions: Record<"webhook" | "consume" | "dispatch" | "reap" | "cleanup", AwsFunction>;
    interface Queue {
      readonly VisibilityTimeout: number;
      readonly MessageRetentionPeriod: number;
      readonly RedrivePolicy: { readonly maxReceiveCount: number };
    }
    let queues: Record<"WakeUp" | "Incoming", { readonly queue: Queue; readonly deadLetters: Queue }>;
    let params: Record<string, Record<string, number>>;
    let reaping: Record<string, { readonly schedule: string; readonly seconds: number }>;
    beforeAll(async () => {
      ({
        functions,
        params,
        custom: { reap: reaping },
      } = await read("serverless.yml"));
      const { Resources: incoming } = await read("infra/aws/queues.yml");
      const wakeUp = await read("infra/aws/wake-up-queue.yml");
      const Resources = { ...incoming, ...wakeUp.resources.Resources };
      functions.dispatch = { ...functions.dispatch, events: wakeUp.events };
      const pair = (name: string) => ({
        queue: Resources[`${name}Queue`].Properties,
        deadLetters: Resources[`${name}DeadLetters`].Properties,
      });
      queues = { WakeUp: pair("WakeUp"), Incoming: pair("Incoming") };
    });

    it.each([
      { name: "WakeUp", takenBy: "dispatch" },
      { name: "Incoming", takenBy: "consume" },
    ] as const)(
      "FUN-10 $name: a message comes again only when its function has surely ended, and is kept for all its attempts",
      ({ name, takenBy }) => {
        const { queue, deadLetters } = queues[name];
        expect(queue.VisibilityTimeout).toBeGreaterThanOrEqual(6 * functions[takenBy].timeout);
        const allAttempts = queue.VisibilityTimeout * queue.RedrivePolicy.maxReceiveCount;
        expect(queue.MessageRetentionPeriod).toBeGreaterThan(allAttempts);
        expect(deadLetters.MessageRetentionPeriod).toBeGreaterThan(queue.MessageRetentionPeriod);
      },
    );

    it("FUN-10 the ids of a queue's messages are remembered for longer than it, or its dead letters, can bring them again", () => {
      const { queue, deadLetters } = queues.Incoming;
      const longestMs = (queue.MessageRetentionPeriod + deadLetters.MessageRetentionPeriod) * 1_000;
      expect(retentionMs).toBeGreaterThan(longestMs);
    });

    it("FUN-10 HTTP APIs answer after 30 s whatever the function does, and senders give up before", () => {
      expect(functions.webhook.timeout).toBeLessThan(29);
      expect(functions.webhook.timeout * 1_000).toBeLessThan(leaseMs);
    });

    it("FUN-10 a run is over when its schedule comes again; what its killed predecessor held is reaped soon after", () => {
      const period = (name: keyof typeof functions) => {
        const { schedule } = functions[name].events.find((event) => event.schedule !== undefined)!;
        return periodOf(name === "reap" ? reaping[params.default!.reapMinutes!]!.schedule : schedule!.rate);
      };
      for (const name of ["dispatch", "reap", "cleanup"] as const) {
        expect(functions[name].timeout * 1_000).toBeLessThanOrEqual(period(name));
        // An event that waited longer would meet the next one.
        expect(functions[name].maximumEventAge! * 1_000).toBeLessThanOrEqual(period(name));
      }
      expect(period("reap")).toBeLessThanOrEqual(2 * leaseMs);
      // Reap keeps 12 s for counting: less than its time-out, or it would never count.
      expect(functions.reap.timeout).toBeGreaterThan(12);
    });

    it("FUN-10 for each of reapMinutes' values the schedule and the alarm's period are as long", () => {
      expect(Object.keys(reaping)).toEqual(["1", "5", "10", "15", "30"]);
      for (const [minutes, { schedule, seconds }] of Object.entries(reaping)) {
        expect(schedule).toBe(`rate(${minutes} minute${minutes === "1" ? "" : "s"})`); // as EventBridge wants it
        expect(seconds * 1_000).toBe(periodOf(schedule));
      }
    });

    it("FUN-10 the queue cannot take all of the dispatch function's concurrency from the schedule", () => {
      for (const stage of ["default", "prod"]) {
        const { queueConcurrency, dispatchConcurrency } = { ...params.default, ...params[stage] };
        expect(queueConcurrency).toBeGreaterThanOrEqual(2); // the least that Lambda takes
        expect(queueConcurrency).toBeLessThan(dispatchConcurrency!);
      }
    });

    it("FUN-10 the alarm on old messages leaves a dispatcher and its retry time to do their work", () => {
      expect(params.default!.oldestAgeMs).toBeGreaterThan(2 * minute + functions.dispatch.timeout * 1_000);
    });
  });

  describe("on Azure", () => {
    interface Host {
      readonly functionTimeout: string;
      readonly extensions: {
        readonly queues: { readonly visibilityTimeout: string; readonly batchSize: number };
      };
    }
    let host: Host;
    beforeAll(async () => {
      host = JSON.parse(await readFile(join(root, "host.json"), "utf8"));
    });

    it("FUN-10 a run ends before the platform takes an instance away, and is longer than a lease", () => {
      const timeoutMs = parseTimeout(host.functionTimeout);
      expect(timeoutMs).toBeLessThanOrEqual(10 * minute);
      expect(timeoutMs).toBeGreaterThan(leaseMs);
    });

    it("FUN-10 a wake-up whose run failed comes again within a lease's time; one at a time in each instance", () => {
      // The trigger itself renews a message while its function runs; this is the wait after a failure.
      const { visibilityTimeout, batchSize } = host.extensions.queues;
      expect(parseTimeout(visibilityTimeout)).toBeLessThanOrEqual(leaseMs);
      expect(batchSize).toBe(1);
    });

    it("FUN-10 the timers come every minute, reap between two dispatches, and clean-up every hour", () => {
      const { dispatch, reap, cleanup } = readAzureSettings({}).schedules;
      const everyMinute = /^(\d+) \* \* \* \* \*$/;
      const [dispatchAt, reapAt] = [dispatch, reap].map((text) => Number(everyMinute.exec(text)?.[1]));
      expect(Math.abs(dispatchAt! - reapAt!) * 1_000).toBeGreaterThanOrEqual(leaseMs);
      expect(cleanup).toMatch(/^\d+ \d+ \* \* \* \*$/);
    });

    it("FUN-10 the alert on old messages leaves a dispatcher time to do its work", async () => {
      const main = await readFile(join(root, "infra/azure/main.bicep"), "utf8");
      const oldestAgeMs = Number(/param oldestAgeMs int = (\d+)/.exec(main)![1]);
      expect(oldestAgeMs).toBeGreaterThan(2 * minute);
    });
  });
});

function periodOf(rate: string): number {
  const [, count, unit] = /^rate\((\d+) (minute|hour)s?\)$/.exec(rate)!;
  return Number(count) * (unit === "hour" ? 60 * minute : minute);
}
