import type { WebhookScheme } from "./schemes/scheme.js";

/** The tolerance of a source that sets none. */
export const usualToleranceMs = 5 * 60_000;

interface Kept {
  /** Of the route. */
  readonly toleranceMs?: number | undefined;
  /** How long done messages are kept. */
  readonly retentionMs: number;
}

/** How old a signed time may be, and how far ahead of the clock. */
export function toleranceOf(
  source: { readonly toleranceMs?: number | undefined },
  { verify }: WebhookScheme,
  { toleranceMs = usualToleranceMs }: Pick<Kept, "toleranceMs">,
): { readonly pastMs: number; readonly futureMs: number } {
  const maxAgeMs = verify?.kind === "signature" ? verify.timestamp?.maxAgeMs : undefined;
  const futureMs = source.toleranceMs ?? toleranceMs;
  return { pastMs: source.toleranceMs ?? maxAgeMs ?? futureMs, futureMs };
}

/**
 * Returns what is wrong with the retention. A copy of a delivery is accepted until its time is too old. Whoever has one could
 * send it again when the message is deleted before that, and it would be handled twice.
 */
export function retentionProblem(
  source: { readonly toleranceMs?: number | undefined },
  scheme: WebhookScheme,
  kept: Kept,
): string | undefined {
  if (scheme.verify?.kind !== "signature" || scheme.verify.timestamp === undefined) return undefined;
  const { pastMs, futureMs } = toleranceOf(source, scheme, kept);
  const leastMs = pastMs + futureMs;
  return kept.retentionMs >= leastMs
    ? undefined
    : `retentionMs must be at least ${leastMs}, not ${kept.retentionMs}: a delivery may be that old, and a copy of it would be handled again when its message is deleted`;
}
