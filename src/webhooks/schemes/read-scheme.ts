import { type Alternatives, asList, isObject, parseAll } from "./field-checks.js";
import { type CheckedHandshake, readHandshake } from "./read-handshake.js";
import { type CheckedProof, readProof } from "./read-proof.js";
import { type CheckedSplit, readSplit } from "./read-split.js";
import type { WebhookScheme } from "./scheme.js";
import { placeholdersInEvent, placeholdersOfId, placeholdersOfTenant } from "./template.js";

/** A scheme with its templates parsed. */
export interface CheckedScheme extends CheckedProof {
  readonly scheme: WebhookScheme;
  readonly split: CheckedSplit | undefined;
  readonly messageId: Alternatives;
  readonly topic: Alternatives;
  readonly tenant: Alternatives;
  readonly handshakes: readonly CheckedHandshake[];
}

/** Fields by which a source overrides its scheme. */
export const overridableFields = [
  "split",
  "messageId",
  "topic",
  "tenant",
  "keepHeaders",
  "volatileFields",
  "contentTypes",
  "receiveMs",
] as const;
/** Adds what is wrong with a scheme to `problems`. */
export type ReadScheme = (given: unknown, problems: string[]) => CheckedScheme;

/**
 * Parses the templates of a scheme, and checks no more than those: enough for a preset, which the tests have checked.
 * `checkScheme` is for all others.
 */
export const readScheme: ReadScheme = (given, problems) => {
  const report = (problem: string): void => {
    problems.push(problem);
  };
  const scheme = (isObject(given) ? given : {}) as unknown as WebhookScheme;
  const split = readSplit(scheme.split, report);
  const ofItem = split === undefined ? [] : (["item"] as const);
  const inId = [...placeholdersInEvent, ...placeholdersOfId, ...ofItem];
  return {
    scheme,
    split,
    ...readProof(scheme.verify, split !== undefined, report),
    messageId: parseAll(scheme.messageId, inId, "messageId", report),
    topic: parseAll(scheme.topic, [...placeholdersInEvent, ...ofItem], "topic", report),
    tenant: parseAll(scheme.tenant, [...placeholdersOfTenant, ...ofItem], "tenant", report),
    handshakes: asList(scheme.handshakes).map((one, index) =>
      readHandshake(one, `handshakes[${index}]`, split !== undefined, report),
    ),
  };
};
