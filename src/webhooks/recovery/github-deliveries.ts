import { InvalidOperationError } from "../../errors.js";
import { callGithub, type GithubAnswer, type GithubCall, OutOfTime } from "./github-api.js";

interface Listing extends Omit<GithubCall, "token"> {
  readonly since: number;
  readonly token: () => Promise<string>;
}

interface DeliveryList {
  readonly deliveries: readonly GithubDelivery[];
  /** Whether the time sufficed for all of them. They come newest first, so those that are missing are the oldest. */
  readonly isComplete: boolean;
}

/** Lists the deliveries of a hook since a time, page by page, until the budget ends. */
export async function listDeliveries(path: string, listing: Listing): Promise<DeliveryList> {
  const { since, token } = listing;
  const deliveries: GithubDelivery[] = [];
  let cursor: string | undefined;
  try {
    do {
      const query = `?per_page=100${cursor === undefined ? "" : `&cursor=${encodeURIComponent(cursor)}`}`;
      const answer = await callGithub("GET", path + query, { ...listing, token: await token() });
      const page = pageOf(answer, path);
      deliveries.push(...page.filter(({ at }) => at >= since));
      if (page.some(({ at }) => at < since)) break;
      cursor = nextCursor(answer.headers.get("link"));
    } while (cursor !== undefined);
  } catch (error) {
    if (error instanceof OutOfTime) return { deliveries, isComplete: false };
    throw error;
  }
  return { deliveries, isComplete: true };
}

/** Only the cursor is taken from the link: a whole address could lead the token to another host. */
export function nextCursor(link: string | null): string | undefined {
  const [, address] = /<([^>]*)>\s*;[^,]*rel="?next"?/.exec(link ?? "") ?? [];
  return address !== undefined && URL.canParse(address)
    ? (new URL(address).searchParams.get("cursor") ?? undefined)
    : undefined;
}

function pageOf({ status, text }: GithubAnswer, path: string): readonly GithubDelivery[] {
  const page = status === 200 ? parseDeliveries(text) : undefined;
  if (page === undefined)
    throw new InvalidOperationError(`GitHub answered ${status} to GET ${path}. ${adviceFor(status)}`);
  return page;
}

export function adviceFor(status: number): string {
  if (status === 401)
    return "It does not know the token, or the app's id and private key do not belong together.";
  if (status === 403 || status === 404)
    return "There is no such hook, or the token may not manage webhooks (admin:repo_hook or admin:org_hook; Webhooks, read and write).";
  return status === 200 ? "Its answer is no list of deliveries: check apiUrl." : "Try again later.";
}

/** One attempt of GitHub to deliver an event. */
interface GithubDelivery {
  /** As text: the number may exceed what JavaScript's numbers can hold. */
  readonly id: string;
  /** The same for all attempts of an event at a hook. */
  readonly guid: string;
  readonly at: number;
  readonly isOk: boolean;
}

/** Returns undefined for text that is not a page of deliveries. */
function parseDeliveries(text: string): readonly GithubDelivery[] | undefined {
  const quoted = text.replace(/"id"\s*:\s*(\d+)/g, '"id":"$1"');
  let page: unknown;
  try {
    page = JSON.parse(quoted);
  } catch {
    return undefined;
  }
  if (!Array.isArray(page)) return undefined;
  const deliveries = page.map(toDelivery);
  return deliveries.every((one) => one !== undefined) ? deliveries : undefined;
}

function toDelivery(entry: unknown): GithubDelivery | undefined {
  const { id, guid, delivered_at, status_code } = (entry ?? {}) as Record<string, unknown>;
  const at = Date.parse(String(delivered_at));
  if (typeof id !== "string" || typeof guid !== "string" || Number.isNaN(at)) return undefined;
  const status = Number(status_code); // 0 where nothing answered
  return { id, guid, at, isOk: status >= 200 && status < 300 };
}

interface FailedDeliveries {
  /** To be asked for now, the oldest event first: the newest attempt of each. */
  readonly due: readonly GithubDelivery[];
  /** Events that were tried again lately. */
  readonly later: number;
}

const shortestWaitMs = 60_000;
const longestWaitMs = 6 * 3_600_000;

/**
 * Finds the events of which no attempt succeeded. An event is tried again when its last attempt is as old as the time
 * that its attempts took before, so that a long outage costs few requests and a refused event is not asked for all the time.
 */
export function failedDeliveries(
  deliveries: readonly GithubDelivery[],
  { now, backOff }: { readonly now: number; readonly backOff: boolean },
): FailedDeliveries {
  const events = new Map<string, GithubDelivery[]>();
  for (const one of deliveries) events.set(one.guid, [...(events.get(one.guid) ?? []), one]);
  const failed = [...events.values()]
    .filter((attempts) => !attempts.some(({ isOk }) => isOk))
    .map((attempts) => attempts.toSorted((one, other) => one.at - other.at))
    .sort(([one], [other]) => one!.at - other!.at);
  const due = failed.filter((attempts) => !backOff || isDue(attempts[0]!.at, attempts.at(-1)!.at, now));
  return { due: due.map((attempts) => attempts.at(-1)!), later: failed.length - due.length };
}

const isDue = (first: number, last: number, now: number): boolean =>
  now - last >= Math.min(longestWaitMs, Math.max(shortestWaitMs, last - first));
