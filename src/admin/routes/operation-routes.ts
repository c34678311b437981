import * as z from "zod/mini";
import { type QueueKind, queueOf } from "../../queue/any-queue.js";
import { bulkActions } from "../../queue/dead-letters.js";
import { type AdminRoute, storeRoute } from "../admin-route.js";
import { batchSize, bodyConditions, guid, queryLimit } from "../field-schemas.js";

const actionRule = `must be one of ${bulkActions.join(", ")}`;
const filterRule = "must be an object of conditions; {} for all dead messages";

/**
 * Operations on all dead messages that match. A request does one batch: the caller continues until the operation has ended,
 * as fast as it wants to, and another caller can go on with it. With `resume` the batch is the first after an interruption: who
 * asks is recorded.
 */
export function operationRoutes(queue: QueueKind): readonly AdminRoute[] {
  const path = `${queue}/operations`;
  return [
    storeRoute({
      path,
      method: "GET",
      request: z.strictObject({ limit: queryLimit }),
      run: async (stores, { limit }, { signal }) => ({
        ok: { operations: await queueOf(stores, queue).operations({ limit, signal }) },
      }),
    }),
    storeRoute({
      path,
      method: "POST",
      request: z.strictObject({
        action: z.enum(bulkActions, actionRule),
        filter: z.strictObject(bodyConditions(queue), filterRule),
      }),
      async run(stores, { action, filter }, { by, signal }) {
        const ok = await queueOf(stores, queue).startOperation(action, filter, { by, signal });
        return { ok, details: { operationId: ok.id, action, matched: ok.matched } };
      },
    }),
    storeRoute({
      path: `${path}/{id}/continue`,
      method: "POST",
      request: z.strictObject({ id: guid, batchSize, resume: z.optional(z.literal(true, "must be true")) }),
      async run(stores, { id, batchSize: size, resume }, { by, signal }) {
        const resumedBy = resume ? by : undefined;
        const ok = await queueOf(stores, queue).continueOperation(id, { batchSize: size, resumedBy, signal });
        return { ok, details: { operationId: ok.id, action: ok.action, done: ok.done } };
      },
    }),
  ];
}
