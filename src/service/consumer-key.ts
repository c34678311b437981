import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import { InvalidArgumentError } from "../errors.js";
import { checkAll } from "./check-all.js";
import { keyProblem } from "./key.js";

/** What a broker delivered, as far as deduplication needs it. Pass whatever else the handler needs with it. */
export interface ConsumedMessage {
  readonly messageId?: string | number | Uint8Array | null | undefined;
  /** Texts, numbers, or bytes as Kafka has them; of several values of a header the first counts. */
  readonly headers?: Readonly<Record<string, unknown>> | null | undefined;
}

/** Whose keys they are: each group handles each message once. */
export interface ConsumerName {
  /** The broker or its tenant. */
  readonly bus: string;
  /** The consumers that share the work, such as the service's name. */
  readonly group: string;
  /** The kind of message. */
  readonly alias: string;
}

const parts = ["bus", "group", "alias"] as const;

/** The longest prefix of a key that leaves room for a hash. */
const longestName = 255 - "sha256:".length - 64;

export function checkConsumerName(name: ConsumerName, what: string): void {
  checkAll(what, [
    ...parts.map((part) => () => {
      const separator = 'must not contain ":", which separates the parts of a key.';
      const problem = keyProblem(name[part]) ?? (name[part].includes(":") ? separator : undefined);
      if (problem !== undefined) throw new InvalidArgumentError(`${part} ${problem}`);
    }),
    () => {
      const { length } = prefixOf(name);
      if (length > longestName)
        throw new InvalidArgumentError(
          `bus, group and alias have ${length} characters with their separators; at most ${longestName} leave room for the message's id.`,
        );
    },
  ]);
}

const prefixOf = (name: ConsumerName): string => parts.map((part) => `${name[part]}:`).join("");

/**
 * `{bus}:{group}:{alias}:{idKey}`. An id that no store takes as it stands, because it is too long or has control
 * characters, is replaced by its hash: refusing it would leave its message undelivered for ever.
 */
export function consumerKey(name: ConsumerName, message: ConsumedMessage, header: string): string {
  const id = idOf(message, header);
  const key = prefixOf(name) + id;
  if (keyProblem(key) === undefined) return key;
  // In UTF-8 all lone surrogates are one character, and two messages would have one key.
  const bytes = Buffer.from(id, id.isWellFormed() ? "utf8" : "utf16le");
  return `${prefixOf(name)}sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

function idOf({ headers, messageId }: ConsumedMessage, header: string): string {
  const names = Object.keys(headers ?? {}).filter((name) => name.toLowerCase() === header.toLowerCase());
  const sent = names.map((name) => textOf(headers?.[name])).find((text) => text !== "");
  const id = sent ?? textOf(messageId);
  if (id !== "") return id;
  throw new InvalidArgumentError(
    `The message has neither a header "${header}" nor a messageId, so a duplicate of it cannot be recognised. Pass one of them.`,
  );
}

/** Bytes that are no UTF-8, such as those of a number, are written in hex: as text, many of them would be the same. */
function textOf(value: unknown): string {
  const first: unknown = Array.isArray(value) ? value[0] : value;
  if (first instanceof Uint8Array)
    return isUtf8(first) ? Buffer.from(first).toString() : `hex:${Buffer.from(first).toString("hex")}`;
  return typeof first === "string" || typeof first === "number" ? String(first) : "";
}
