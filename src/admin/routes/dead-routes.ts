import * as z from "zod/mini";
import { type QueueKind, queueOf } from "../../queue/any-queue.js";
import { bulkActions } from "../../queue/dead-letters.js";
import { type AdminRoute, storeRoute } from "../admin-route.js";
import { headers, key, keys, name, payload, queryConditions, queryLimit } from "../field-schemas.js";

/** What can be done with dead messages one by one, and what can be read of all of them. */
export function deadRoutes(queue: QueueKind): readonly AdminRoute[] {
  const conditions = queryConditions(queue);
  const someKeys = z.strictObject({ keys: keys(queue) });
  return [
    storeRoute({
      path: `${queue}/dead/groups`,
      method: "GET",
      request: z.strictObject({ ...conditions, limit: queryLimit }),
      run: async (stores, filter, { signal }) => ({
        ok: { groups: await queueOf(stores, queue).deadGroups({ ...filter, signal }) },
      }),
    }),
    storeRoute({
      path: `${queue}/dead/count`,
      method: "GET",
      request: z.strictObject(conditions),
      run: async (stores, filter, { signal }) => ({
        ok: { count: await queueOf(stores, queue).countDead({ ...filter, signal }) },
      }),
    }),
    ...bulkActions.map((action) =>
      storeRoute({
        path: `${queue}/dead/${action}`,
        method: "POST",
        request: someKeys,
        async run(stores, { keys: given }, { by, signal }) {
          const ok = await queueOf(stores, queue)[action](given, { by, signal });
          return { ok, details: { changed: ok.changed.length } };
        },
      }),
    ),
    storeRoute({
      path: `${queue}/dead/edit`,
      method: "POST",
      request: z.strictObject({ key: key(queue), changes }),
      async run(stores, fields, { by, signal }) {
        const made = await queueOf(stores, queue).editAndReplay(fields.key, fields.changes, {
          by,
          signal,
        });
        return { ok: { key: made }, details: { changed: 1 } };
      },
    }),
  ];
}

const changesRule = "must have topic, payload or headers";
const changes = z
  .strictObject(
    { topic: z.optional(name), payload: z.optional(payload), headers: z.optional(headers) },
    changesRule,
  )
  .check(z.refine((given) => Object.keys(given).length > 0, changesRule));
