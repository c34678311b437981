import type { Delivery } from "./delivery.js";
import { maxParsedBytes } from "./proven-events.js";
import type { CheckedScheme } from "./read-scheme.js";
import type { Refusal } from "./refusal.js";
import { fillFirst, jsonValue } from "./template.js";
import { withoutPrefix } from "./token-verifier.js";
import type { JwtRule } from "./verify-rules.js";

/** Each takes a signature to verify. Graph sends one for each app and tenant of a delivery. */
const maxTokens = 100;

/** Returns the JSON web tokens of a delivery: the one in its head, or those in its body, which may have a list of them. */
export function tokensIn(
  delivery: Delivery,
  { proof }: Pick<CheckedScheme, "proof">,
  { prefix = "" }: JwtRule,
): readonly string[] | Refusal {
  const inBody = proof.flat().find(({ placeholder }) => placeholder === "json");
  if (inBody === undefined) {
    const token = withoutPrefix(fillFirst(proof, delivery), prefix);
    return token === undefined ? "token missing" : [token];
  }
  if (delivery.body.length > maxParsedBytes) return "body too long to verify";
  const found = [jsonValue(delivery.json(), inBody.text) ?? []].flat();
  if (found.length === 0) return "token missing";
  if (found.length > maxTokens) return "too many items to verify";
  return found.every((one) => typeof one === "string") ? found : "token wrong";
}
