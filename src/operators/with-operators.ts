import type { Inbox } from "../inbox/inbox.js";
import type { Outbox } from "../outbox/outbox.js";
import type { InboxKey, OutboxKey } from "../queue/message.js";
import type { Operators } from "../queue/operators.js";
import { operatorsOf } from "./operators-of.js";

export interface OperatedStores {
  readonly inbox: Omit<Inbox, "replay"> & Operators<InboxKey>;
  readonly outbox: Omit<Outbox, "replay"> & Operators<OutboxKey>;
}

/** The queues of one database, each together with what operators do with it. */
export const withOperators = ({
  inbox,
  outbox,
}: {
  readonly inbox: Inbox;
  readonly outbox: Outbox;
}): OperatedStores => ({
  inbox: { ...inbox, ...operatorsOf(inbox) },
  outbox: { ...outbox, ...operatorsOf(outbox) },
});
