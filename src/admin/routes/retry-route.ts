import * as z from "zod/mini";
import { type AdminRoute, storeRoute } from "../admin-route.js";
import { guid } from "../field-schemas.js";

/** Replays one failed message, by the name that the document on messages between services has for it. */
export const retryRoute: AdminRoute = storeRoute({
  path: "outbox/{id}/retry",
  method: "POST",
  request: z.strictObject({ id: guid }),
  async run({ outbox }, key, { by, signal }) {
    const { changed } = await outbox.replay([key], { by, signal });
    if (changed.length === 1) return { ok: { changed }, details: { id: key.id } };
    const message = await outbox.get(key, { signal });
    return message === null
      ? { notFound: "The outbox has no such message." }
      : { conflict: `The message has not failed: its state is ${message.state}.` };
  },
});
