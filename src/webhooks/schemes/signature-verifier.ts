import type { KeysOf } from "./certificate-keys.js";
import type { Delivery } from "./delivery.js";
import { provenEvents } from "./proven-events.js";
import type { CheckedScheme } from "./read-scheme.js";
import type { Refusal } from "./refusal.js";
import type { TimeSettings } from "./verifier.js";
import type { SignatureRule } from "./verify-rules.js";
import { refusalOf } from "./verify-signature.js";

/** Verifies the signature of a delivery, or that of each of its items. */
export function createSignatureVerifier(
  checked: CheckedScheme,
  rule: SignatureRule,
  keysOf: KeysOf,
  { clock, pastMs, futureMs }: TimeSettings,
): (delivery: Delivery) => Promise<Refusal | undefined> {
  const { proof, signatureIn, sender, handshakes } = checked;
  const signsChallenges = handshakes.some(({ hmac }) => hmac !== undefined);
  return async (delivery) => {
    const events = provenEvents(delivery, checked);
    if (typeof events === "string") return events;
    if (events.length === 0) return "signature missing"; // an empty list has no item that could prove it
    const keys = await keysOf(delivery);
    if (typeof keys === "string") return keys;
    const time = { nowMs: clock().getTime(), pastMs, futureMs };
    const check = { rule, signed: proof, signatureIn, sender, signsChallenges, ...time };
    for (const event of events) {
      const refusal = refusalOf(event, keys, check);
      if (refusal !== undefined) return refusal;
    }
    return undefined;
  };
}
