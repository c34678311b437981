import { correlationOf, reservationOf } from "./services.js";
import type { Entry } from "./tables.js";

/** The first few of each. */
export interface Account {
  readonly missing: readonly string[];
  /** Done more than once. */
  readonly twice: readonly string[];
  /** Nobody has asked for it, or it has the wrong correlation. */
  readonly unexpected: readonly string[];
}

/** Compares what a service has done with what it must have done exactly once for each order. */
export function account(
  entries: readonly Entry[],
  orders: number,
  whats: readonly ((order: number) => string)[],
): Account {
  const done = new Map<string, number>();
  for (const entry of entries) done.set(textOf(entry), (done.get(textOf(entry)) ?? 0) + 1);
  const expected = Array.from({ length: orders }, (_, i) => i + 1).flatMap((order) =>
    whats.map((what) => textOf({ what: what(order), order, correlation: correlationOf(order) })),
  );
  const known = new Set(expected);
  const repeated = [...done]
    .filter(([, times]) => times > 1)
    .map(([text, times]) => `${text}: ${times} times`);
  return {
    missing: expected.filter((text) => !done.has(text)).slice(0, shown),
    twice: repeated.slice(0, shown),
    unexpected: [...done.keys()].filter((text) => !known.has(text)).slice(0, shown),
  };
}

export const ordersDo = [() => "placed", reservationOf] as const;
export const inventoryDoes = [() => "OrderApproved", () => "ReserveStock"] as const;

const shown = 10;

const textOf = ({ what, order, correlation }: Entry): string => `${what} for ${order} (${correlation})`;
