import { InvalidOperationError } from "../../errors.js";

/** Fetches a text by https. Tests pass one of their own. */
export type FetchText = (url: string, signal: AbortSignal) => Promise<string>;

const maxBytes = 256 * 1_024;

/** Follows no redirect: the address was checked, and the one behind it was not. */
export const fetchText: FetchText = async (url, signal) => {
  const response = await fetch(url, { redirect: "error", signal });
  if (!response.ok) throw new InvalidOperationError(`${new URL(url).host} answered ${response.status}.`);
  const text = await response.text();
  if (text.length > maxBytes) throw new InvalidOperationError(`${new URL(url).host} sent more than a key.`);
  return text;
};
