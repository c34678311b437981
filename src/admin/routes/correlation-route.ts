import * as z from "zod/mini";
import { type AdminRoute, storeRoute } from "../admin-route.js";
import { name } from "../field-schemas.js";
import { phasedWay } from "../phased-way.js";

/** The way of one event, from the webhook to the published message. */
export const correlationRoute: AdminRoute = storeRoute({
  path: "correlation/{id}",
  method: "GET",
  request: z.strictObject({ id: name }),
  run: async (stores, { id }, { signal }) => ({ ok: { steps: await phasedWay(stores, id, { signal }) } }),
});
