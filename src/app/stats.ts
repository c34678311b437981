import { mapLimit } from "../base/async.js";
import { omitUndefined } from "../base/defined.js";
import { operatorsOf } from "../operators/operators-of.js";
import {
  type InboxState,
  inboxStates,
  type OutboxState,
  outboxStates,
  type Phase,
  phases,
} from "../queue/message.js";
import type { Control, UnhandledTopic } from "../queue/operators.js";
import type { QueueStats } from "../queue/work-store.js";
import type { AppJobs } from "./jobs.js";

/** A pause or a limit, and where it is. */
interface AppControl extends Control {
  readonly queue: "inbox" | "outbox";
  /** In an app with tenants. */
  readonly tenant?: string;
}

export interface AppStats {
  readonly inbox: QueueStats<InboxState>;
  readonly outbox: QueueStats<OutboxState>;
  /** All pauses and limits. */
  readonly controls: readonly AppControl[];
  /** Topics of the inbox whose messages were acknowledged without a handler, the last seen first. */
  readonly unhandled: readonly UnhandledTopic[];
  /** Tenants whose numbers could not be read; the sums are without them. */
  readonly failed?: readonly string[];
}

/** An app, or the stores of one tenant. */
export type MeasuredStores = Pick<AppJobs, "inbox" | "outbox"> & Partial<Pick<AppJobs, "tenants">>;

/** Tenants that are read at once. */
const atOnce = 8;

async function statsOf(
  { inbox, outbox }: Pick<AppJobs, "inbox" | "outbox">,
  tenant?: string,
): Promise<AppStats> {
  const controls: AppControl[] = [];
  const both = [["inbox", operatorsOf(inbox)] as const, ["outbox", operatorsOf(outbox)] as const];
  for (const [queue, operators] of both)
    for (const control of await operators.controls())
      controls.push({ queue, ...omitUndefined({ tenant }), ...control });
  const unhandled = await operatorsOf(inbox).unhandled();
  return { inbox: await inbox.stats(), outbox: await outbox.stats(), controls, unhandled };
}

/** The numbers of both queues; for an app with many tenants, their sums. */
export async function appStats({ inbox, outbox, tenants }: MeasuredStores): Promise<AppStats> {
  if (tenants === undefined) return statsOf({ inbox, outbox });
  const all: AppStats[] = [];
  const failures = new Map<string, unknown>();
  await mapLimit(await tenants.distinctStores(), atOnce, async (id) => {
    try {
      all.push(await statsOf(await tenants.stores(id), id));
    } catch (error) {
      failures.set(id, error);
    }
  });
  const [failure] = failures.values();
  if (failures.size > 0 && all.length === 0) throw failure; // all of them: the schema is missing, say
  return {
    ...omitUndefined({ failed: failures.size === 0 ? undefined : [...failures.keys()].sort() }),
    inbox: sumOf(
      inboxStates,
      all.map((one) => one.inbox),
    ),
    outbox: sumOf(
      outboxStates,
      all.map((one) => one.outbox),
    ),
    controls: all.flatMap((one) => one.controls),
    unhandled: mergedTopics(all.flatMap((one) => one.unhandled)),
  };
}

/** The topics of several tenants: a topic is the same in all of them. */
function mergedTopics(topics: readonly UnhandledTopic[]): readonly UnhandledTopic[] {
  const merged = new Map<string, UnhandledTopic>();
  for (const one of topics) {
    const { messages = 0, lastSeenAt = one.lastSeenAt } = merged.get(one.topic) ?? {};
    const last = lastSeenAt > one.lastSeenAt ? lastSeenAt : one.lastSeenAt;
    merged.set(one.topic, { topic: one.topic, messages: messages + one.messages, lastSeenAt: last });
  }
  return [...merged.values()].sort((a, b) => b.lastSeenAt.getTime() - a.lastSeenAt.getTime());
}

function sumOf<State extends string>(
  states: readonly State[],
  all: readonly QueueStats<State>[],
): QueueStats<State> {
  const sum = (state: State) => all.reduce((total, { counts }) => total + counts[state], 0);
  const ages = all.flatMap(({ oldestDueAgeMs }) => oldestDueAgeMs ?? []);
  return {
    counts: Object.fromEntries(states.map((state) => [state, sum(state)])) as Record<State, number>,
    phases: Object.fromEntries(
      phases.map((phase) => [phase, all.reduce((total, one) => total + one.phases[phase], 0)]),
    ) as Record<Phase, number>,
    due: all.reduce((total, { due }) => total + due, 0),
    oldestDueAgeMs: ages.length === 0 ? null : Math.max(...ages),
    expired: all.reduce((total, { expired }) => total + expired, 0),
  };
}
