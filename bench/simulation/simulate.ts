import { fair, type TenantBatch } from "../../src/app/tenants.js";
import type { Budget } from "../../src/base/async.js";
import { silentLogger } from "../../src/base/logger.js";
import { fanOutDefaults, fanOutDispatcher } from "../../src/tenants/fan-out/fan-out.js";
import { runTenants, tenantQuarantine } from "../../src/tenants/scheduling/run-tenants.js";
import { dispatchDefaults, type TenantDispatcher } from "../../src/tenants/scheduling/tenant-dispatcher.js";
import { type VirtualTime, virtualTime } from "./virtual-time.js";

/** The assumptions. All times in milliseconds. */
export interface World {
  readonly tenants: number;
  /** The fraction of tenants that have messages. */
  readonly active: number;
  readonly messagesPerActive: number;
  /** The fraction of tenants whose database never answers. */
  readonly hanging: number;
  /** To open a connection with TLS and a password. */
  readonly connectMs: number;
  readonly roundTripMs: number;
  /** The time of one handler; ten run at once. */
  readonly handlerMs: number;
  /** From the call of the cloud to the start of a worker. */
  readonly startMs: number;
  /** The time of one function. */
  readonly functionMs: number;
  /** Pools that one instance keeps open. */
  readonly pools: number;
  readonly memoryGb: number;
  /** One function without workers. */
  readonly alone: boolean;
}

export const usualWorld: World = {
  tenants: 10_000,
  active: 0.01,
  messagesPerActive: 500,
  hanging: 0.001,
  connectMs: 30,
  roundTripMs: 2,
  handlerMs: 20,
  startMs: 400,
  functionMs: 60_000,
  pools: 20,
  memoryGb: 0.5,
  alone: false,
};

export interface Outcome {
  /** From the timer to the last handled message. */
  readonly drainedMs: number;
  readonly handled: number;
  readonly left: number;
  readonly invocations: number;
  readonly workersAtOnce: number;
  readonly gbSeconds: number;
  readonly polls: number;
}

const batchSize = 50;
const handlersAtOnce = 10;

/** Runs the real scheduler and the real fan-out for one timer period, on tenants that only take time. */
export function simulate(world: World, random: () => number = Math.random): Promise<Outcome> {
  const time = virtualTime();
  return time.run(onePeriod(world, time, random));
}

async function onePeriod(world: World, time: VirtualTime, random: () => number): Promise<Outcome> {
  const ids = Array.from({ length: world.tenants }, (_, index) => `t${index}`);
  /** One tenant in 1/`part`, beginning with number `first`. */
  const isOneOf = (part: number, index: number, first: number) =>
    part > 0 && index % Math.round(1 / part) === first;
  const waiting = new Map<string, number>();
  const hangs = new Set<string>();
  for (const [index, id] of ids.entries()) {
    if (isOneOf(world.active, index, 0)) waiting.set(id, world.messagesPerActive);
    else if (isOneOf(world.hanging, index, 1)) hangs.add(id);
  }
  const sum = { handled: 0, drainedMs: 0, invocations: 0, gbSeconds: 0, polls: 0, atOnce: 0, most: 0 };

  /** One instance: it remembers its quarantined tenants and its open pools. */
  const instance = (): Pick<TenantDispatcher, "run"> => {
    const quarantine = tenantQuarantine(time.now);
    const pools = new Set<string>();
    const connected = async (id: string): Promise<void> => {
      if (!pools.delete(id)) await time.sleep(world.connectMs);
      pools.add(id);
      if (pools.size > world.pools) pools.delete(pools.values().next().value!);
    };
    const turn = async (id: string): Promise<boolean> => {
      sum.polls++;
      if (hangs.has(id)) {
        await time.sleep(dispatchDefaults.pollTimeoutMs);
        throw new Error("no answer");
      }
      await connected(id);
      await time.sleep(world.roundTripMs);
      const batch = Math.min(batchSize, waiting.get(id) ?? 0);
      if (batch === 0) return false;
      // A claim, the handlers, and an acknowledgement.
      await time.sleep(2 * world.roundTripMs + Math.ceil(batch / handlersAtOnce) * world.handlerMs);
      waiting.set(id, waiting.get(id)! - batch);
      sum.handled += batch;
      sum.drainedMs = time.now();
      return true;
    };
    return {
      async run(budget, batch = ids) {
        const common = {
          selection: fair(random, time.now),
          concurrency: dispatchDefaults.concurrency,
          turnMs: dispatchDefaults.turnMs,
        };
        const result = await runTenants({
          ...common,
          ids: batch,
          budget,
          turn,
          quarantine,
          logger: silentLogger,
          timers: time,
        });
        const acked = {
          acked: 1,
          abandoned: 0,
          failed: 0,
          released: 0,
          lost: 0,
          unhandled: 0,
          stuck: 0,
          claimed: 1,
          handled: 1,
        };
        return { ...result, inbox: { ...acked, stopped: "drained" }, outbox: null };
      },
    };
  };

  const running = new Set<Promise<void>>();
  const invoke = (
    work: (dispatcher: ReturnType<typeof fanOut>, budget: Budget) => Promise<unknown>,
  ): void => {
    const invocation = (async () => {
      sum.invocations++;
      await time.sleep(world.startMs);
      sum.most = Math.max(sum.most, ++sum.atOnce);
      const startedAt = time.now();
      const budget: Budget = {
        signal: new AbortController().signal,
        remainingMs: () => Math.max(0, startedAt + world.functionMs - time.now()),
      };
      await work(fanOut(), budget);
      sum.atOnce--;
      sum.gbSeconds += ((time.now() - startedAt) / 1_000) * world.memoryGb;
    })();
    running.add(invocation);
    void invocation.finally(() => running.delete(invocation));
  };
  const fanOut = () =>
    fanOutDispatcher({
      dispatcher: instance(),
      distinctStores: async () => ids,
      fanOut: {
        async send(batch: TenantBatch) {
          await time.sleep(20); // the call of the cloud
          invoke((dispatcher, budget) => dispatcher.work(batch, budget));
        },
      },
      ...(world.alone ? { tenantBatchSize: world.tenants } : {}),
      now: time.now,
      random,
    });

  invoke((dispatcher, budget) => dispatcher.start(budget));
  while (running.size > 0) await Promise.race(running);
  const left = [...waiting.values()].reduce((total, count) => total + count, 0);
  const { handled, drainedMs, invocations, gbSeconds, polls, most } = sum;
  return { handled, left, drainedMs, invocations, workersAtOnce: most, gbSeconds, polls };
}

export const periodMs = fanOutDefaults.periodMs;
