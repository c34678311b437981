/** One attempt of GitHub to deliver an event. */
export interface GithubDelivery {
  /** As text: the number may exceed what JavaScript's numbers can hold. */
  readonly id: string;
  /** The same for all attempts of an event at a hook. */
  readonly guid: string;
  readonly at: number;
  readonly isOk: boolean;
}

/** Returns undefined for text that is not a page of deliveries. */
export function parseDeliveries(text: string): readonly GithubDelivery[] | undefined {
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
