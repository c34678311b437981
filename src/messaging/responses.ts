import { isGuid } from "../base/uuid.js";
import { permanentFailure } from "../dispatch/settlement.js";
import { InvalidArgumentError, InvalidOperationError } from "../errors.js";
import { storedUnder } from "../middleware/handle-once.js";
import { throwFailureResult } from "../middleware/transaction.js";
import { refuseUnknown } from "../queue/arguments.js";
import type { InboxKey, OutboxMessage } from "../queue/message.js";
import { validated } from "../queue/standard-schema.js";
import { canonicalJson } from "./canonical-json.js";
import type { Envelope } from "./envelope.js";
import type { CommandDefinition, ResponseContext } from "./messages.js";
import { handlerFor } from "./service-options.js";
import { type ServiceParts, timedTransaction } from "./service-parts.js";
import { headerNames, messageTypeOf, topicOf } from "./stored-message.js";

/** The response to a command that was sent: in its acknowledgement, or in a message of its own. */
interface IncomingResponse {
  readonly endpoint: string;
  /** The service that responds. */
  readonly sourceServiceId: string;
  /** The message id of the command. */
  readonly inReplyTo: string;
  readonly correlationId: string | null;
  readonly payload: unknown;
}

/** `duplicate`: the same response was handled before. `ignored`: the service has no handler for it. */
type ResponseOutcome = "handled" | "duplicate" | "ignored";

export type HandleResponse = (response: IncomingResponse) => Promise<ResponseOutcome>;

/** Under this key the inbox remembers that the response to a command was handled. */
const responseKey = (source: string, inReplyTo: string): InboxKey => ({
  source,
  messageId: `re:${inReplyTo}`,
});

/**
 * Handles a response once, however often it comes and whichever way: it is recorded under the command's id in the
 * transaction of the handler. So the outbox message need not be acknowledged in that transaction: a command that is sent
 * again after a crash brings a duplicate.
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
      if (!(await inbox.markProcessed(key, { tx }))) return { kind: "duplicate" } as const;
      const value = await responseFrom(definition, payload, endpoint);
      const context: ResponseContext = { ...response, tx, signal };
      throwFailureResult(await handler(value, context));
      return { kind: "handled" } as const;
    });
    return kind;
  };
}

/** The command that a response is for, or `handled` when its response was handled and its record is deleted. */
type SentCommand = { readonly inReplyTo: string; readonly correlationId: string } | "handled";

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
  const key = responseKey(sourceServiceId, inReplyTo);
  if (command === undefined && (await storedUnder(parts.inbox, key)) !== undefined) return "handled";
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

const responseName = (endpoint: string): string => `The response of "${endpoint}"`;

/** The JSON text of what a command's handler returned, validated as the sender will validate it. */
export async function responseText(
  { response, byReference }: CommandDefinition,
  returned: unknown,
  endpoint: string,
  maxBytes: number,
): Promise<string> {
  if (isResponseReference(returned)) {
    if (byReference) return JSON.stringify({ [referenceMember]: returned });
    throw new InvalidOperationError(
      `The handler of "${endpoint}" returned a reference. Declare the command with { byReference: true }.`,
    );
  }
  const text = canonicalJson(returned, responseName(endpoint));
  const bytes = Buffer.byteLength(text);
  if (bytes > maxBytes)
    throw new InvalidOperationError(
      `${responseName(endpoint)} has ${bytes} bytes; at most ${maxBytes} are sent. Store it elsewhere and return responseReference(url), or raise maxResponseBytes.`,
    );
  await validated(response, JSON.parse(text), responseName(endpoint));
  return text;
}

/** What the sender of the command gets: the response, validated, or the reference to it. */
export async function responseFrom(
  { response, byReference }: CommandDefinition,
  payload: unknown,
  endpoint: string,
): Promise<unknown> {
  const reference = byReference ? fromReferencePayload(payload) : undefined;
  if (reference !== undefined) return reference;
  if (payload === undefined) throw new InvalidArgumentError(`${responseName(endpoint)} is missing.`);
  return validated(response, payload, responseName(endpoint));
}

/** Where a response is that is too large to be sent. */
export interface ResponseReference {
  readonly url: string;
  readonly contentType?: string;
  readonly bytes?: number;
  /** In hexadecimal, for the reader to check what it has loaded. */
  readonly sha256?: string;
}

class Reference implements ResponseReference {
  constructor(readonly url: string) {}
}

/**
 * Returned by the handler of a command with `byReference: true`, instead of the response. The sender gets the reference and
 * loads the response itself. Keep what it points to for as long as the sender may need it.
 *
 * @example
 * return responseReference("https://files.example/reports/7.json", { contentType: "application/json" });
 */
export function responseReference(
  url: string,
  details: Omit<ResponseReference, "url"> = {},
): ResponseReference {
  refuseUnknown(details, ["contentType", "bytes", "sha256"], "responseReference");
  if (typeof url !== "string" || !URL.canParse(url))
    throw new InvalidArgumentError("responseReference: url must be an absolute URL.");
  return Object.assign(new Reference(url), details);
}

/** Whether a value is a reference to a response that is kept elsewhere. */
export const isResponseReference = (value: unknown): value is ResponseReference => value instanceof Reference;

/** A reference is sent and stored as the only member of an object. */
const referenceMember = "rf-reference";

/** The reference in a payload; undefined when the payload is the response itself. */
function fromReferencePayload(payload: unknown): ResponseReference | undefined {
  const isObject = typeof payload === "object" && payload !== null;
  if (!isObject || Object.keys(payload).length !== 1 || !Object.hasOwn(payload, referenceMember))
    return undefined;
  const { url, ...details } = (payload as { [referenceMember]: ResponseReference | null })[
    referenceMember
  ] ?? { url: "" };
  return responseReference(url, details);
}
