import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { localTls } from "./local-tls.js";

export interface KeyVaultServer {
  readonly url: string;
  readonly secrets: Map<string, string>;
  /** How often a secret was requested with a token. */
  asked(): number;
  stop(): Promise<void>;
}

/** The part of Key Vault's protocol that reading a secret needs. There is no emulator. */
export async function startKeyVaultServer(): Promise<KeyVaultServer> {
  const secrets = new Map<string, string>();
  let asked = 0;
  const server = createServer(localTls.read(), (request, response) => {
    if (!request.headers.authorization?.startsWith("Bearer ")) {
      // The client requires a resource whose domain is a parent of the vault's: 127.0.0.1 counts as below 0.0.1.
      const challenge = 'Bearer authorization="https://login.windows.net/tenant", resource="vault://0.0.1"';
      response.writeHead(401, { "www-authenticate": challenge }).end();
      return;
    }
    asked++;
    const name = /^\/secrets\/([^/]+)/.exec(request.url!)?.[1] ?? "";
    const value = secrets.get(name);
    response.setHeader("content-type", "application/json");
    if (value === undefined) {
      response.writeHead(404).end(JSON.stringify({ error: { code: "SecretNotFound", message: name } }));
      return;
    }
    response.end(
      JSON.stringify({ value, id: `${origin()}/secrets/${name}/1`, attributes: { enabled: true } }),
    );
  });
  const origin = () => `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: origin(),
    secrets,
    asked: () => asked,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
