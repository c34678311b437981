import { readTimestamp } from "../../webhooks/schemes/read-timestamp.js";
import { signedContents } from "../../webhooks/schemes/signed-content.js";
import { splitDelivery } from "../../webhooks/schemes/split-delivery.js";
import { type Attempt, deliveryOf, sourceOf } from "./attempt.js";

/**
 * Returns the exact text that the signature of a request must cover, one for each event where each has a signature of its
 * own. It holds the payload, so only a local run on the developer's machine may show it.
 */
export function signedTexts(attempt: Attempt): readonly string[] {
  if (attempt.secrets.length === 0) return [];
  const source = sourceOf(attempt);
  const { verify } = source.scheme;
  if (verify.kind !== "signature") return [];
  const whole = deliveryOf(attempt);
  const isPerItem = verify.signatureIn?.includes("{item:") ?? false;
  const events = isPerItem ? splitDelivery(whole, source.split) : [whole];
  return events.flatMap((event) => {
    const timestamp = (verify.timestamp && readTimestamp(event, verify.timestamp)?.text) ?? "";
    // a name, where a certificate has the key; elsewhere it is not to be shown
    const secret = verify.certificate === undefined ? "[the secret]" : attempt.secrets[0];
    const contents = signedContents(event, { rule: verify, signed: source.proof }, { timestamp, secret });
    return typeof contents === "string"
      ? []
      : contents.slice(0, 1).map((one) => Buffer.from(one).toString("utf8"));
  });
}
