import { defined } from "../base/defined.js";
import { severalAtOnce } from "../base/several-at-once.js";
import { type InboxState, inboxStates, type OutboxState, outboxStates } from "../queue/message.js";
import type { QueueStats } from "../queue/work-store.js";
import type { App } from "./create-app.js";

export interface AppStats {
  readonly inbox: QueueStats<InboxState>;
  readonly outbox: QueueStats<OutboxState>;
  /** Tenants whose numbers could not be read; the sums are without them. */
  readonly failed?: readonly string[];
}

/** Tenants that are read at once. */
const atOnce = 8;

/** The numbers of both queues; for an app with many tenants, their sums. */
export async function appStats({ inbox, outbox, tenants }: App): Promise<AppStats> {
  if (tenants === undefined) return { inbox: await inbox.stats(), outbox: await outbox.stats() };
  const all: AppStats[] = [];
  const failures = new Map<string, unknown>();
  await severalAtOnce(await tenants.distinctStores(), atOnce, async (id) => {
    try {
      const stores = await tenants.stores(id);
      all.push({ inbox: await stores.inbox.stats(), outbox: await stores.outbox.stats() });
    } catch (error) {
      failures.set(id, error);
    }
  });
  const [failure] = failures.values();
  if (failures.size > 0 && all.length === 0) throw failure; // all of them: the schema is missing, say
  return {
    ...defined({ failed: failures.size === 0 ? undefined : [...failures.keys()].sort() }),
    inbox: sumOf(
      inboxStates,
      all.map((one) => one.inbox),
    ),
    outbox: sumOf(
      outboxStates,
      all.map((one) => one.outbox),
    ),
  };
}

function sumOf<State extends string>(
  states: readonly State[],
  all: readonly QueueStats<State>[],
): QueueStats<State> {
  const sum = (state: State) => all.reduce((total, { counts }) => total + counts[state], 0);
  const ages = all.flatMap(({ oldestDueAgeMs }) => oldestDueAgeMs ?? []);
  return {
    counts: Object.fromEntries(states.map((state) => [state, sum(state)])) as Record<State, number>,
    due: all.reduce((total, { due }) => total + due, 0),
    oldestDueAgeMs: ages.length === 0 ? null : Math.max(...ages),
    parked: all.reduce((total, { parked }) => total + parked, 0),
    expired: all.reduce((total, { expired }) => total + expired, 0),
  };
}
