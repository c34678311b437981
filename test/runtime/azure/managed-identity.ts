import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface ManagedIdentity {
  /** The environment of an app that has an identity. */
  readonly env: Readonly<Record<string, string>>;
  /** The resources for which tokens were requested. */
  readonly resources: readonly string[];
  /** What requests for PostgreSQL get. It is valid for a day. */
  readonly token: string;
  /** Returns the token for PostgreSQL that the next request gets instead. */
  issueNext(options: { lifetimeSeconds: number }): string;
  stop(): Promise<void>;
}

const postgres = "https://ossrdbms-aad.database.windows.net";
const daySeconds = 24 * 3_600;

/** The endpoint that gives a function app tokens of its identity. These tokens are not signed. */
export async function startManagedIdentity(): Promise<ManagedIdentity> {
  const header = randomUUID();
  const resources: string[] = [];
  const prepared: IssuedToken[] = [];
  const usual = issue(postgres, daySeconds);
  const server = createServer((request, response) => {
    const resource = new URL(request.url!, "http://localhost").searchParams.get("resource");
    if (request.headers["x-identity-header"] !== header || resource === null) {
      response.writeHead(400).end();
      return;
    }
    resources.push(resource);
    const issued = prepared.shift() ?? (resource === postgres ? usual : issue(resource, daySeconds));
    response.setHeader("content-type", "application/json");
    response.end(
      JSON.stringify({
        access_token: issued.token,
        expires_on: String(issued.expires),
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
    token: usual.token,
    issueNext({ lifetimeSeconds }) {
      const issued = issue(postgres, lifetimeSeconds);
      prepared.push(issued);
      return issued.token;
    },
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

interface IssuedToken {
  readonly token: string;
  /** In seconds since 1970. */
  readonly expires: number;
}

function issue(audience: string, lifetimeSeconds: number): IssuedToken {
  const expires = Math.floor(Date.now() / 1_000) + lifetimeSeconds;
  return { token: tokenOf(audience, expires), expires };
}

function tokenOf(audience: string, expires: number): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const issuer = `https://sts.windows.net/${randomUUID()}/`;
  const claims = { aud: audience, iss: issuer, nbf: expires - 48 * 3_600, iat: expires, exp: expires };
  return `${part({ typ: "JWT", alg: "RS256" })}.${part(claims)}.${part({})}`;
}
