import type { Range, Step, StepOf } from "./recorded-call.js";

/** What a key is after some calls. `attempts` counts its leases: the generation. */
export type KeyState = { readonly attempts: number } & (
  | { readonly is: "free" }
  | {
      readonly is: "leased";
      /** Null when the call that got it never returned, and did not propose it: nobody knows it. */
      readonly leaseId: string | null;
      /** When the lease ends by the database's clock. A range only where the call that got or renewed it never returned. */
      readonly ends: Range;
    }
  | {
      readonly is: "processed";
      /** The lease that finished it. Null when it was marked without one. */
      readonly by: string | null;
    }
);

type Leased = Extract<KeyState, { readonly is: "leased" }>;

export const unknownKey: KeyState = { is: "free", attempts: 0 };

/**
 * The state after an call, the same object when it changes nothing, and undefined when the call could not return
 * what it returned. `reading` is when it may have read the database's clock. A lease that has ended by that reading is over;
 * nothing else ends it. That is how leases expire here: there is no call for it.
 *
 * An call without a result is applied as if it took effect. Undefined then says that it has none.
 */
export function applied(state: KeyState, step: Step, reading: Range): KeyState | undefined {
  switch (step.kind) {
    case "tryBegin":
      return tryBegin(state, step, reading);
    case "renew":
      return renewed(state, step, reading);
    case "finish":
      return finished(state, step, reading);
    case "release":
      return released(state, step, reading);
    case "isProcessed":
      return step.result === (state.is === "processed") ? state : undefined;
    case "markProcessed":
      return state.is === "processed" ? state : { is: "processed", by: null, attempts: state.attempts };
    case "inspect":
      return inspected(state, step, reading);
  }
}

const exactly = (time: number): Range => ({ from: time, to: time });

/** Times are rounded to a ms, so a lease may be live, and may be over, in the ms in which it ends. */
const maybeLive = ({ ends }: Leased, { from }: Range): boolean => from <= ends.to;
const maybeOver = ({ ends }: Leased, { to }: Range): boolean => to >= ends.from;

function tryBegin(state: KeyState, step: StepOf<"tryBegin">, reading: Range): KeyState | undefined {
  const { leaseMs, proposed, result } = step;
  const isOwn = proposed !== undefined && holds(state, proposed);
  if (result?.status === "Processed") return state.is === "processed" ? state : undefined;
  if (result?.status === "Busy") return isOwn ? undefined : busy(state, result.expiresAt, reading);
  if (isOwn && result !== undefined && maybeLive(state, reading)) {
    const found = endingAt(state, result.expiresAt, reading);
    if (found !== undefined) return found;
  }
  const ends =
    result === undefined
      ? { from: reading.from + leaseMs, to: reading.to + leaseMs }
      : exactly(result.expiresAt);
  const read = { from: ends.from - leaseMs, to: ends.to - leaseMs };
  const isFree = state.is === "free" || (state.is === "leased" && maybeOver(state, read));
  if (!isFree || read.from < reading.from || read.to > reading.to) return undefined;
  const leaseId = result?.leaseId ?? proposed ?? null;
  return { is: "leased", leaseId, ends, attempts: state.attempts + 1 };
}

/** Somebody else has a live lease. A returned end must be that of the lease, and makes a range exact. */
function busy(state: KeyState, expiresAt: number | null, reading: Range): KeyState | undefined {
  if (state.is !== "leased" || !maybeLive(state, reading)) return undefined;
  return expiresAt === null ? state : endingAt(state, expiresAt, reading);
}

function endingAt(state: Leased, end: number, reading: Range): KeyState | undefined {
  const { from, to } = state.ends;
  if (end < from || end > to || end < reading.from) return undefined;
  return from === to ? state : { ...state, ends: exactly(end) };
}

const holds = (state: KeyState, leaseId: string): state is Leased =>
  state.is === "leased" && state.leaseId === leaseId;

function renewed(
  state: KeyState,
  { leaseId, leaseMs, result }: StepOf<"renew">,
  reading: Range,
): KeyState | undefined {
  if (result?.status === "LeaseLost") return withoutLease(state, leaseId, reading);
  if (!holds(state, leaseId) || !maybeLive(state, reading)) return undefined;
  const { from, to } = reading;
  const ends =
    result === undefined
      ? { from: from + leaseMs, to: Math.min(to, state.ends.to) + leaseMs }
      : exactly(result.expiresAt);
  return { ...state, ends };
}

function finished(
  state: KeyState,
  { leaseId, result }: StepOf<"finish">,
  reading: Range,
): KeyState | undefined {
  const wasFinished = state.is === "processed" && state.by === leaseId;
  if (result?.status === "LeaseLost") return wasFinished ? undefined : withoutLease(state, leaseId, reading);
  if (wasFinished) return state;
  if (!holds(state, leaseId) || !maybeLive(state, reading)) return undefined;
  return { is: "processed", by: leaseId, attempts: state.attempts };
}

function released(
  state: KeyState,
  { leaseId, result }: StepOf<"release">,
  reading: Range,
): KeyState | undefined {
  if (result?.status === "LeaseLost") return withoutLease(state, leaseId, reading);
  if (!holds(state, leaseId) || !maybeLive(state, reading)) return undefined;
  return { is: "free", attempts: state.attempts };
}

/** The caller does not hold the key. */
function withoutLease(state: KeyState, leaseId: string, reading: Range): KeyState | undefined {
  return holds(state, leaseId) && !maybeOver(state, reading) ? undefined : state;
}

function inspected(state: KeyState, { result }: StepOf<"inspect">, reading: Range): KeyState | undefined {
  if (result === undefined) return state;
  if (result.status === "Unknown") return state.is === "free" && state.attempts === 0 ? state : undefined;
  if (result.attempts !== state.attempts) return undefined;
  switch (result.status) {
    case "Processed":
      return state.is === "processed" ? state : undefined;
    case "Leased":
      return busy(state, result.leaseUntil, reading);
    case "Free":
      if (state.is === "leased") return maybeOver(state, reading) ? state : undefined;
      return state.is === "free" && state.attempts > 0 ? state : undefined;
  }
}
