import { type Ending, refuse } from "./ending.js";
import { extractMessages, maxEvents } from "./extract-message.js";
import { endHandshake, findInProven, findWithToken } from "./handshake.js";
import type { ReceiveDeadline } from "./receive-deadline.js";
import { type Delivery, formOfQuery, isJsonType } from "./schemes/delivery.js";
import type { ResolvedSource } from "./sources.js";
import type { messageStore } from "./store-messages.js";

const tooManyEvents = `the delivery has more than ${maxEvents} events: let the sender send fewer at once, or leave out split`;

/** Verifies a delivery before it uses anything of the body. Then it answers a handshake, or stores the events. */
export function deliveryAcceptor(store: ReturnType<typeof messageStore>, clock: () => Date) {
  const storeEvents = async (
    source: ResolvedSource,
    delivery: Delivery,
    deadline: ReceiveDeadline,
    events?: readonly Delivery[],
  ): Promise<Ending> => {
    const isJson = isJsonType(delivery.contentType) && delivery.body.length > 0 && !isEncoded(delivery);
    if (isJson && delivery.json() === undefined) return refuse("bad request", "the body is not JSON");
    const messages = extractMessages(delivery, source, clock(), events);
    if (messages === "no id") return refuse("bad request", "the request has neither an id nor a body");
    if (messages === "too many events") return refuse("too large", tooManyEvents);
    return store(source, messages, deadline);
  };

  return async (source: ResolvedSource, delivery: Delivery, deadline: ReceiveDeadline): Promise<Ending> => {
    const withToken =
      source.handshakes.length === 0
        ? undefined
        : await deadline.within("verifying", () => findWithToken(source, delivery));
    const refusal =
      withToken === undefined ? await deadline.within("verifying", () => source.verify(delivery)) : undefined;
    if (refusal !== undefined) return refuse("unauthorized", refusal);
    const found = withToken ?? findInProven(source, delivery);
    if (found === undefined) return storeEvents(source, formOfQuery(delivery), deadline);
    const { handshake, event, toStore } = found;
    const answered = () => deadline.within("the handshake", () => endHandshake(handshake, event));
    if (toStore.length === 0) return answered();
    const stored = await storeEvents(
      handshake.store ? asHandshake(source) : source,
      delivery,
      deadline,
      toStore,
    );
    if (stored.refusal !== undefined) return stored;
    const { response, refusal: unanswered } = await answered();
    return unanswered === undefined ? { ...stored, response } : stored;
  };
}

/**
 * A handshake that is stored takes neither id nor topic from its body: whoever knows the token of the URL could otherwise
 * make it look like an event, or take the id of one.
 */
const asHandshake = (source: ResolvedSource): ResolvedSource => ({ ...source, messageId: [], topic: [] });

/** Compressed JSON is stored as it is. */
const isEncoded = (delivery: Delivery): boolean =>
  !["", "identity"].includes((delivery.headers.get("content-encoding") ?? "").toLowerCase());
