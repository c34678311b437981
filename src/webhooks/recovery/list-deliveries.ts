import type { Budget } from "../../base/budget.js";
import { InvalidOperationError } from "../../errors.js";
import { type GithubAnswer, type GithubApi, OutOfTime } from "./github-api.js";
import { type GithubDelivery, parseDeliveries } from "./github-delivery.js";

export interface DeliveryList {
  readonly deliveries: readonly GithubDelivery[];
  /** Whether the time sufficed for all of them. They come newest first, so those that are missing are the oldest. */
  readonly isComplete: boolean;
}

/** Lists the deliveries of a hook since a time, page by page, until the budget ends. */
export async function listDeliveries(
  api: GithubApi,
  path: string,
  {
    since,
    budget,
    token,
  }: { readonly since: number; readonly budget: Budget; readonly token: () => Promise<string> },
): Promise<DeliveryList> {
  const deliveries: GithubDelivery[] = [];
  let cursor: string | undefined;
  do {
    if (budget.remainingMs() <= 0) return { deliveries, isComplete: false };
    const query = `?per_page=100${cursor === undefined ? "" : `&cursor=${encodeURIComponent(cursor)}`}`;
    const answer = await api
      .request("GET", path + query, { token: await token(), budget })
      .catch(unlessOutOfTime);
    if (answer === undefined) return { deliveries, isComplete: false };
    const page = pageOf(answer, path);
    deliveries.push(...page.filter(({ at }) => at >= since));
    if (page.some(({ at }) => at < since)) break;
    cursor = nextCursor(answer.headers.get("link"));
  } while (cursor !== undefined);
  return { deliveries, isComplete: true };
}

/** Only the cursor is taken from the link: a whole address could lead the token to another host. */
export function nextCursor(link: string | null): string | undefined {
  const [, address] = /<([^>]*)>\s*;[^,]*rel="?next"?/.exec(link ?? "") ?? [];
  return address !== undefined && URL.canParse(address)
    ? (new URL(address).searchParams.get("cursor") ?? undefined)
    : undefined;
}

function unlessOutOfTime(error: unknown): undefined {
  if (!(error instanceof OutOfTime)) throw error;
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
