/** A response as the inbox stores it, in JSON. */
export interface StoredResponse {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  /** In base64. */
  readonly body: string;
}

const statusesWithoutBody: readonly number[] = [101, 204, 205, 304];

/** Without cookies: they belong to the one request that they were made for. */
export async function toStoredResponse(response: Response): Promise<StoredResponse> {
  const body = Buffer.from(await response.arrayBuffer()).toString("base64");
  const headers = [...response.headers].filter(([name]) => name !== "set-cookie");
  return { status: response.status, headers, body };
}

export function fromStoredResponse({ status, headers, body }: StoredResponse): Response {
  const bytes = Buffer.from(body, "base64");
  const hasBody = bytes.byteLength > 0 && !statusesWithoutBody.includes(status);
  return new Response(hasBody ? bytes : null, {
    status,
    headers: headers.map(([name, value]): [string, string] => [name, value]),
  });
}
