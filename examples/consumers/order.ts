import type { ConsumeContext, ConsumedMessage } from "oncebox/inbox-store";

/** What the consumers pass to the handler. */
export interface Order extends ConsumedMessage {
  readonly body: string;
}

export type Handle = (order: Order, context: ConsumeContext) => Promise<void>;
