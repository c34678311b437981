import type { FetchText } from "./fetch-text.js";
import { isPinned } from "./pinned-hosts.js";

/** Calls an address of the provider. Returns whether it is one of the provider's; rejects when it does not respond. */
export async function confirmAddress(
  address: string | undefined,
  hosts: readonly string[],
  fetchText: FetchText,
  withinMs: number,
): Promise<boolean> {
  if (address === undefined || !isPinned(address, hosts)) return false;
  await fetchText(address, AbortSignal.timeout(withinMs));
  return true;
}
