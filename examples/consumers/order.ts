import type { ConsumeContext, ConsumedMessage } from "oncebox/service";

/** What the consumers pass to the handler. */
export interface Order extends ConsumedMessage {
  readonly body: string;
}

export type Handle = (order: Order, context: ConsumeContext) => Promise<void>;
