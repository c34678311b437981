import { defined } from "../base/defined.js";
import {
  errorType,
  inSpan,
  processSpan,
  type SpanEnd,
  type SpanStart,
  type Tracing,
} from "../base/tracing.js";
import type { QueueMessage } from "../queue/message.js";
import { type Handled, handleMessage } from "./handle-message.js";
import type { HeldMessage, RunState } from "./run-state.js";

/** Handles a message in a span, which is a child of the one that enqueued it. */
export const handleTraced = <Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
  tracing: Tracing,
): Promise<Handled> => inSpan(tracing, spanOf(run, held.message), () => handleMessage(run, held), endOf);

function spanOf<Message extends QueueMessage, Tx>(
  { store, config }: RunState<Message, Tx>,
  message: Message,
): SpanStart {
  const { topic, correlationId, attempt, headers } = message;
  const { source, messageId } = config.describe(message);
  const attributes = defined({
    "messaging.message.id": messageId ?? undefined,
    "messaging.message.conversation_id": correlationId ?? undefined,
    "oncebox.queue": store.queue,
    "oncebox.store": store.id,
    "oncebox.source": source ?? undefined,
    "oncebox.attempt": attempt,
  });
  return processSpan(topic, headers, attributes);
}

function endOf({ end }: Handled): SpanEnd {
  if (end.kind === "ok") return {};
  return { error: end.kind === "error" ? errorType(end.error) : end.kind };
}
