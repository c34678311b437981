import { safeReason } from "../../base/safe-reason.js";
import { InvalidOperationError } from "../../errors.js";

/** Fetches a text by https. Tests pass one of their own. */
export type FetchText = (url: string, signal: AbortSignal) => Promise<string>;

const maxBytes = 256 * 1_024;

/** Follows no redirect: the address was checked, and the one behind it was not. */
export const fetchText: FetchText = async (url, signal) => {
  const { host } = new URL(url);
  const unreachable = (error: unknown): never => {
    const cause = (error as { cause?: unknown }).cause ?? error; // fetch hides the socket's error behind one of its own
    throw new InvalidOperationError(`${host} could not be reached: ${safeReason(cause)}.`);
  };
  const response = await fetch(url, { redirect: "error", signal }).catch(unreachable);
  if (!response.ok) throw new InvalidOperationError(`${host} answered ${response.status}.`);
  const text = await response.text().catch(unreachable);
  if (text.length > maxBytes) throw new InvalidOperationError(`${host} sent more than a key.`);
  return text;
};
