import type { Delivery } from "./delivery.js";
import type { CheckedScheme } from "./read-scheme.js";
import type { Refusal } from "./refusal.js";
import { splitDelivery } from "./split-delivery.js";

/** A body is parsed before it is believed only where it has the signature or the token itself. Then it is short. */
export const maxParsedBytes = 1_048_576;
export const maxItems = 1_000;

/** Returns the parts of a delivery of which each has its own proof: its items, or the whole delivery. */
export function provenEvents(
  delivery: Delivery,
  { proof, signatureIn, split }: Pick<CheckedScheme, "proof" | "signatureIn" | "split">,
): readonly Delivery[] | Refusal {
  const isPerItem = [...proof, signatureIn ?? []].flat().some(({ placeholder }) => placeholder === "item");
  if (!isPerItem && signatureIn === undefined) return [delivery];
  if (delivery.body.length > maxParsedBytes) return "body too long to verify";
  if (!isPerItem) return [delivery];
  const events = splitDelivery(delivery, split, maxItems);
  return events.length > maxItems ? "too many items to verify" : events;
}
