import { AsyncLocalStorage } from "node:async_hooks";

const current = new AsyncLocalStorage<AbortSignal>();

/** Calls to tenants' databases that `work` makes are aborted with this signal, whatever signal of their own they have. */
export const withTurnSignal = <T>(signal: AbortSignal, work: () => T): T => current.run(signal, work);

/** The signal of a call: its own, the one of the turn that it belongs to, or both. */
export function signalInTurn(own: AbortSignal | undefined): AbortSignal | undefined {
  const turn = current.getStore();
  if (turn === undefined || own === undefined) return turn ?? own;
  return AbortSignal.any([own, turn]);
}
