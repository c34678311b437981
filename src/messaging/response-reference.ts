import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown } from "../queue/arguments.js";

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

export const isResponseReference = (value: unknown): value is ResponseReference => value instanceof Reference;

const member = "rf-reference";

/** The form in which a reference is sent and stored. */
export const toReferencePayload = (reference: ResponseReference): unknown => ({ [member]: { ...reference } });

/** The reference in a payload; undefined when the payload is the response itself. */
export function fromReferencePayload(payload: unknown): ResponseReference | undefined {
  const isObject = typeof payload === "object" && payload !== null;
  if (!isObject || Object.keys(payload).length !== 1 || !Object.hasOwn(payload, member)) return undefined;
  const { url, ...details } = (payload as { [member]: ResponseReference | null })[member] ?? { url: "" };
  return responseReference(url, details);
}
