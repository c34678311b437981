import { isGuid } from "../base/guid.js";
import { permanentFailure } from "../dispatch/settlement.js";
import { storedUnder } from "../middleware/handle-once.js";
import type { OutboxMessage } from "../queue/message.js";
import type { Envelope } from "./envelope.js";
import { responseKey } from "./responses.js";
import type { ServiceParts } from "./service-parts.js";
import { headerNames, messageTypeOf, topicOf } from "./stored-message.js";

/** The command that a response is for, or `handled` when its response is known and its record is deleted. */
export type SentCommand = { readonly inReplyTo: string; readonly correlationId: string } | "handled";

/**
 * Finds the command that a response message is for in the record of what this service has sent. A response is taken only
 * from the service that the command was sent to, so no other service can respond in its place. All others are refused for
 * good: no retry could make them right.
 */
export async function sentCommand(parts: ServiceParts, response: Envelope): Promise<SentCommand> {
  const { endpoint, sourceServiceId } = response;
  const inReplyTo = response.headers[headerNames.inReplyTo];
  const isCommand = parts.messages.get(endpoint)?.messageType === "Command";
  if (inReplyTo === undefined || !isGuid(inReplyTo) || !isCommand)
    throw permanentFailure(
      `A response needs the header ${headerNames.inReplyTo} with a command's message id, and the endpoint of a command.`,
    );
  const command = await findSent(parts, inReplyTo);
  const isOurs =
    command?.topic === topicOf(sourceServiceId, endpoint) && messageTypeOf(command) === "Command";
  // The id as it is stored, so that one in capitals is the same response.
  if (isOurs)
    return { inReplyTo: command.messageId, correlationId: command.correlationId ?? command.messageId };
  const known = command ?? (await storedUnder(parts.inbox, responseKey(sourceServiceId, inReplyTo)));
  if (command === undefined && known !== undefined) return "handled";
  throw permanentFailure(
    `The service "${parts.serviceId}" has no record of a command "${endpoint}" to "${sourceServiceId}" with this message id.`,
  );
}

/** In this service's outbox, or in those of the instances that send to its other destinations. */
async function findSent(
  { outbox, otherOutboxes }: ServiceParts,
  id: string,
): Promise<OutboxMessage | undefined> {
  for (const each of [outbox, ...otherOutboxes]) {
    const found = await each.get({ id });
    if (found !== null) return found;
  }
  return undefined;
}
