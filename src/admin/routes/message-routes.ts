import * as z from "zod/mini";
import type { OperatedStores } from "../../operators/with-operators.js";
import { type QueueKind, queueOf } from "../../queue/any-queue.js";
import { type AdminRoute, storeRoute } from "../admin-route.js";
import {
  activityBuckets,
  activitySince,
  flag,
  keyAnd,
  queryConditions,
  queryCursor,
  queryLimit,
  state,
} from "../field-schemas.js";
import { listPhased, type PhasedFilter, withPhases } from "../list-phased.js";
import { messageView } from "../message-view.js";

/** What can be read of the messages of a queue, dead or not. */
export function messageRoutes(queue: QueueKind): readonly AdminRoute[] {
  const page = { ...queryConditions(queue), limit: queryLimit, after: queryCursor };
  const list = async (stores: OperatedStores, filter: PhasedFilter) => {
    const { messages, cursor } = await listPhased(queueOf(stores, queue), queue, filter);
    return { ok: { messages: messages.map((message) => messageView(message)), cursor } };
  };
  return [
    storeRoute({
      path: `${queue}/stats`,
      method: "GET",
      request: z.strictObject({}),
      run: async (stores, _, { signal }) => ({ ok: await queueOf(stores, queue).stats({ signal }) }),
    }),
    storeRoute({
      path: `${queue}/activity`,
      method: "GET",
      request: z.strictObject({ sinceMs: activitySince, buckets: activityBuckets }),
      run: async (stores, options, { signal }) => ({
        ok: await queueOf(stores, queue).activity({ ...options, signal }),
      }),
    }),
    storeRoute({
      path: `${queue}/partitions`,
      method: "GET",
      request: z.strictObject({ limit: queryLimit }),
      run: async (stores, { limit }, { signal }) => ({
        ok: { partitions: await queueOf(stores, queue).blockedPartitions({ limit, signal }) },
      }),
    }),
    storeRoute({
      path: `${queue}/messages`,
      method: "GET",
      request: z.strictObject({ state: z.optional(state(queue)), ...page }),
      run: (stores, { state: given, ...filter }, { signal }) => list(stores, { ...filter, ...given, signal }),
    }),
    storeRoute({
      path: `${queue}/failed`,
      method: "GET",
      request: z.strictObject(page),
      run: (stores, filter, { signal }) => list(stores, { ...filter, phase: "dead", signal }),
    }),
    storeRoute({
      path: `${queue}/message`,
      method: "GET",
      request: keyAnd(queue, { payload: flag }),
      async run(stores, { payload = false, ...key }, { signal }) {
        const store = queueOf(stores, queue);
        const message = await store.get(key, { signal });
        if (message === null) return { notFound: `The ${queue} has no such message.` };
        const attempts = await store.attempts(key, { signal });
        const [phased] = await withPhases(store, [message], { signal });
        const ok = { ...messageView(phased!, payload), attempts };
        // who has seen which payload
        return payload ? { ok, details: { payload: true, ...key } } : { ok };
      },
    }),
  ];
}
