import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface ManagedIdentity {
  /** The environment of an app that has an identity. */
  readonly env: Readonly<Record<string, string>>;
  /** The resources for which tokens were requested. */
  readonly resources: readonly string[];
  stop(): Promise<void>;
}

/** The endpoint that gives a function app tokens of its identity. These tokens are not signed. */
export async function startManagedIdentity(): Promise<ManagedIdentity> {
  const header = randomUUID();
  const resources: string[] = [];
  const server = createServer((request, response) => {
    const resource = new URL(request.url!, "http://localhost").searchParams.get("resource");
    if (request.headers["x-identity-header"] !== header || resource === null) {
      response.writeHead(400).end();
      return;
    }
    resources.push(resource);
    const expires = Math.floor(Date.now() / 1_000) + 24 * 3_600;
    response.setHeader("content-type", "application/json");
    response.end(
      JSON.stringify({
        access_token: token(resource, expires),
        expires_on: String(expires),
        resource,
        token_type: "Bearer",
      }),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    env: { IDENTITY_ENDPOINT: `http://127.0.0.1:${port}/msi/token`, IDENTITY_HEADER: header },
    resources,
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

function token(audience: string, expires: number): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const issuer = `https://sts.windows.net/${randomUUID()}/`;
  const claims = { aud: audience, iss: issuer, nbf: expires - 48 * 3_600, iat: expires, exp: expires };
  return `${part({ typ: "JWT", alg: "RS256" })}.${part(claims)}.${part({})}`;
}
