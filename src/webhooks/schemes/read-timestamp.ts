import type { Delivery } from "./delivery.js";
import { entriesOf, maxHeaderLength } from "./header-entries.js";
import type { Refusal } from "./refusal.js";
import { firstHeader, jsonText } from "./template.js";
import type { TimestampRule, TimestampUnit } from "./verify-rules.js";

export interface Timestamp {
  /** As the provider wrote it: the signed content has it so. */
  readonly text: string;
  readonly ms: number;
}

/** How far a timestamp may differ from the clock. */
export interface Tolerance {
  readonly nowMs: number;
  readonly pastMs: number;
  readonly futureMs: number;
}

export const isInBody = (
  rule: TimestampRule | undefined,
): rule is TimestampRule & { readonly json: string } => rule !== undefined && "json" in rule;

/** Returns undefined for a delivery without a timestamp, and for one with two different ones. */
export function readTimestamp(delivery: Delivery, rule: TimestampRule): Timestamp | undefined {
  const text = isInBody(rule) ? jsonText(delivery.json(), rule.json) : inHeader(delivery, rule);
  const ms = text === undefined ? Number.NaN : parsed(text, rule.unit ?? "s");
  return text === undefined || Number.isNaN(ms) ? undefined : { text, ms };
}

function inHeader(delivery: Delivery, rule: TimestampRule): string | undefined {
  if (isInBody(rule) || !("header" in rule)) return undefined;
  const header = firstHeader(delivery.headers, rule.header);
  if (header === null || header.length > maxHeaderLength) return undefined;
  const found = new Set(entriesOf(header, rule));
  return found.size === 1 ? [...found][0] : undefined;
}

/** A date as in RFC 3339, with as many digits of a second as the provider likes. */
const isoDate = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/;

function parsed(text: string, unit: TimestampUnit): number {
  if (unit === "iso") return isoDate.test(text) ? Date.parse(text) : Number.NaN;
  return /^\d{1,15}$/.test(text) ? Number(text) * (unit === "ms" ? 1 : 1_000) : Number.NaN;
}

export function timeRefusal(
  time: Timestamp | undefined,
  { nowMs, pastMs, futureMs }: Tolerance,
): Refusal | undefined {
  if (time === undefined) return "timestamp missing";
  if (time.ms < nowMs - pastMs) return "timestamp too old";
  if (time.ms > nowMs + futureMs) return "timestamp too new";
  return undefined;
}
