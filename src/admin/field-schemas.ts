import * as z from "zod/mini";
import { guid, numberText, wholeNumberRule } from "../http/field-schemas.js";
import { maxNameLength, nameProblem } from "../queue/arguments.js";
import { longestMs } from "../queue/retry-policy.js";
import type { AnyKey, QueueKind } from "../queue/work-store.js";
import { activityLimits } from "../sql/store-options.js";
import { phaseOrState, phasesIn } from "./phases.js";

const nameRule = `must be a text of 1 to ${maxNameLength} characters, without a space at its end`;
/** A name as databases store it: a topic, a source, an id. */
export const name = z
  .string(nameRule)
  .check(z.refine((value) => nameProblem(value) === undefined, { error: nameRule, abort: true }));

const longestText = 1_000;
const textRule = `must be a text of 1 to ${longestText} characters`;
const errorText = z.string(textRule).check(z.minLength(1, textRule), z.maxLength(longestText, textRule));
/** Empty: the messages that died without an error. */
const groupRule = "must be the errorGroup of a group, or empty";
const errorGroup = z.string(groupRule).check(z.maxLength(64, groupRule));

const wholeNumber = (least: number, most: number) => {
  const rule = wholeNumberRule(least, most);
  return z.int(rule).check(z.gte(least, rule), z.lte(most, rule));
};
const longestAgeMs = longestMs * 1_000;

/** Only the inbox has sources. */
export const sourceIn = (queue: QueueKind) => z.optional(queue === "inbox" ? name : noSource);
const noSource = name.check(z.refine(() => false, "is for the inbox: the outbox has no sources"));

/** The conditions that choose messages, in a query and in a body. */
const conditions = <Age extends z.ZodMiniType>(queue: QueueKind, age: Age) => ({
  topic: z.optional(name),
  source: sourceIn(queue),
  error: z.optional(errorText),
  errorGroup: z.optional(errorGroup),
  olderThanMs: z.optional(age),
  newerThanMs: z.optional(age),
});
export const queryConditions = (queue: QueueKind) => conditions(queue, numberText(0, longestAgeMs));
export const bodyConditions = (queue: QueueKind) => conditions(queue, wholeNumber(0, longestAgeMs));

export const activitySince = z.optional(numberText(1, activityLimits.sinceMs));
export const activityBuckets = z.optional(numberText(1, activityLimits.maxBuckets));
export const batchSize = z.optional(wholeNumber(1, 1_000));

/** A phase or a state, in any case. */
export function state(queue: QueueKind) {
  const rule = `must be one of ${phasesIn(queue).join(", ")}`;
  const find = (text: string) => phaseOrState(queue, text);
  return z.pipe(
    z.string(rule).check(z.refine((text) => find(text) !== undefined, rule)),
    z.transform((text) => find(text)!),
  );
}

const keyRule = { inbox: "must be { source, messageId }", outbox: "must be { id }" } as const;

const keyFields = { inbox: { source: name, messageId: name }, outbox: { id: guid } } as const;

export const key = (queue: QueueKind) =>
  z.strictObject(keyFields[queue], keyRule[queue]) as unknown as z.ZodMiniType<AnyKey>;

/** A key in a query, beside other fields. */
export const keyAnd = <Shape extends z.core.$ZodLooseShape>(queue: QueueKind, shape: Shape) =>
  z.strictObject({ ...keyFields[queue], ...shape }) as unknown as z.ZodMiniType<
    AnyKey & z.output<z.ZodMiniObject<Shape>>
  >;

export const maxKeys = 500;
const keysRule = `must be a list of 1 to ${maxKeys} keys`;
export const keys = (queue: QueueKind) =>
  z.array(key(queue), keysRule).check(z.minLength(1, keysRule), z.maxLength(maxKeys, keysRule));

const flagRule = "must be true or false";
export const flag = z.optional(
  z.pipe(
    z.enum(["true", "false"], flagRule),
    z.transform((text) => text === "true"),
  ),
);

const payloadRule = "must be a text of well-formed Unicode";
export const payload = z.string(payloadRule).check(z.refine((text) => text.isWellFormed(), payloadRule));
const headersRule = "must be an object of texts, or null";
/** Checked as a whole: the name of a header does not become the name of a field, which is logged. */
export const headers = z.nullable(
  z
    .record(z.string(), z.unknown(), headersRule)
    .check(z.refine((given) => Object.values(given).every((one) => typeof one === "string"), headersRule)),
) as unknown as z.ZodMiniType<Readonly<Record<string, string>> | null>;
