import { throwFailureResult } from "../middleware/throw-failure-result.js";
import type { InboxKey } from "../queue/message.js";
import type { CommandDefinition } from "./define-messages.js";
import { handlerFor } from "./handler-for.js";
import { responseFrom } from "./response-payload.js";
import type { ServiceParts } from "./service-parts.js";
import type { ResponseContext } from "./service-types.js";
import { timedTransaction } from "./timed-transaction.js";

/** The response to a command that was sent: in its acknowledgement, or in a message of its own. */
export interface IncomingResponse {
  readonly endpoint: string;
  /** The service that responds. */
  readonly sourceServiceId: string;
  /** The message id of the command. */
  readonly inReplyTo: string;
  readonly correlationId: string | null;
  readonly payload: unknown;
}

/** `known`: the same response was handled before. `ignored`: the service has no handler for it. */
export type ResponseOutcome = "handled" | "known" | "ignored";

export type HandleResponse = (response: IncomingResponse) => Promise<ResponseOutcome>;

/** Under this key the inbox remembers that the response to a command was handled. */
export const responseKey = (source: string, inReplyTo: string): InboxKey => ({
  source,
  messageId: `re:${inReplyTo}`,
});

/**
 * Handles a response once, however often it comes and whichever way: it is recorded under the command's id in the
 * transaction of the handler. So the outbox message need not be acknowledged in that transaction: a command that is sent
 * again after a crash brings a response that is known.
 */
export function responseHandler(parts: ServiceParts): HandleResponse {
  const { options, messages, inbox } = parts;
  return async ({ payload, ...response }) => {
    const { endpoint, sourceServiceId, inReplyTo } = response;
    const definition = messages.get(endpoint) as CommandDefinition;
    const handler = handlerFor(options.onResponse, endpoint);
    if (handler === undefined) return "ignored";
    const key = responseKey(sourceServiceId, inReplyTo);
    const { kind } = await timedTransaction(parts, async ({ tx, signal }) => {
      if (!(await inbox.markProcessed(key, { tx }))) return { kind: "known" } as const;
      const value = await responseFrom(definition, payload, endpoint);
      const context: ResponseContext = { ...response, tx, signal };
      throwFailureResult(await handler(value, context));
      return { kind: "handled" } as const;
    });
    return kind;
  };
}
