import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { localTls } from "../azure/local-tls.js";

export interface VaultSecret {
  text: string;
  tags?: Record<string, string>;
  enabled?: boolean;
  /** Seconds since 1970. */
  updated?: number;
  /** The status of the response instead of 200. */
  refusal?: number;
  /** The number of responses with status 429 before the secret. */
  throttled?: number;
}

const pageSize = 3;

/** Speaks as much of Key Vault as listing and reading secrets takes. Three on a page. */
export async function startVault(secrets: Map<string, VaultSecret>) {
  const paths: string[] = [];
  const server = createServer(localTls.read(), (request, response) => {
    if (!request.headers.authorization?.startsWith("Bearer ")) {
      const challenge = 'Bearer authorization="https://login.windows.net/tenant", resource="vault://0.0.1"';
      response.writeHead(401, { "www-authenticate": challenge }).end();
      return;
    }
    const url = new URL(request.url!, origin());
    paths.push(url.pathname);
    const [status, body] = answer(url);
    const headers = {
      "content-type": "application/json",
      ...(status === 429 ? { "retry-after-ms": "1" } : {}),
    };
    response.writeHead(status, headers).end(JSON.stringify(body));
  });
  const origin = () => `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const entry = (name: string, { tags, enabled = true, updated = 1 }: VaultSecret) => ({
    id: `${origin()}/secrets/${name}`,
    attributes: { enabled, updated, created: 1 },
    tags,
  });

  const answer = (url: URL): [number, object] => {
    const name = /^\/secrets\/([^/]+)/.exec(url.pathname)?.[1];
    if (name === undefined) {
      const first = Number(url.searchParams.get("$skiptoken") ?? 0);
      const page = [...secrets].slice(first, first + pageSize).map(([key, secret]) => entry(key, secret));
      const more = first + pageSize < secrets.size;
      const nextLink = more ? `${origin()}/secrets?api-version=7.6&$skiptoken=${first + pageSize}` : null;
      return [200, { value: page, nextLink }];
    }
    const secret = secrets.get(name);
    if (secret === undefined) return [404, { error: { code: "SecretNotFound", message: name } }];
    if (secret.throttled !== undefined && secret.throttled-- > 0)
      return [429, { error: { code: "Throttled", message: name } }];
    if (secret.refusal !== undefined)
      return [secret.refusal, { error: { code: "Forbidden", message: name } }];
    return [200, { ...entry(`${name}/1`, secret), value: secret.text }];
  };

  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: origin(),
    paths,
    stop: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
