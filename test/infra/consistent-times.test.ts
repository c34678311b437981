import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { parseTimeout } from "../../src/adapters/azure/function-timeout.js";
import { readAzureSettings } from "../../src/config/azure-settings.js";
import { defaults } from "../../src/sql/store-options.js";
import { root } from "../support/markdown.js";

/** A lease may be shorter than its function's time-out, because a dispatcher renews the leases of what it holds. */
const minute = 60_000;
const { leaseMs, retentionMs } = defaults;
const read = async (file: string) => parse(await readFile(join(root, file), "utf8"));

describe("times that depend on each other", () => {
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
      "FUN-10 $name: a message returns only after its function has ended, and is kept for all its attempts",
      ({ name, takenBy }) => {
        const { queue, deadLetters } = queues[name];
        expect(queue.VisibilityTimeout).toBeGreaterThanOrEqual(6 * functions[takenBy].timeout);
        const allAttempts = queue.VisibilityTimeout * queue.RedrivePolicy.maxReceiveCount;
        expect(queue.MessageRetentionPeriod).toBeGreaterThan(allAttempts);
        expect(deadLetters.MessageRetentionPeriod).toBeGreaterThan(queue.MessageRetentionPeriod);
      },
    );

    it("FUN-10 message ids are remembered for longer than the queue and its dead letters keep messages", () => {
      const { queue, deadLetters } = queues.Incoming;
      const longestMs = (queue.MessageRetentionPeriod + deadLetters.MessageRetentionPeriod) * 1_000;
      expect(retentionMs).toBeGreaterThan(longestMs);
    });

    it("FUN-10 a webhook's function ends before API Gateway's limit of 30 s and before a lease", () => {
      expect(functions.webhook.timeout).toBeLessThan(29);
      expect(functions.webhook.timeout * 1_000).toBeLessThan(leaseMs);
    });

    it("FUN-10 a run ends before its schedule starts the next one, and leases of a killed run are reaped soon after", () => {
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

    it("FUN-10 the alarm's period is that of the schedule, for each value of reapMinutes", () => {
      expect(Object.keys(reaping)).toEqual(["1", "5", "10", "15", "30"]);
      for (const [minutes, { schedule, seconds }] of Object.entries(reaping)) {
        expect(schedule).toBe(`rate(${minutes} minute${minutes === "1" ? "" : "s"})`); // as EventBridge wants it
        expect(seconds * 1_000).toBe(periodOf(schedule));
      }
    });

    it("FUN-10 the queue leaves some of the dispatch function's concurrency to the schedule", () => {
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

    it("FUN-10 a failed wake-up is retried within a lease, one at a time in each instance", () => {
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
