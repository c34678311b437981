import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";

/** The part of Secrets Manager's protocol that the SDK needs to fetch a secret. */
export interface SecretsManagerServer {
  readonly url: string;
  /** Until this is called, the server answers as if it were overloaded. */
  comeBack(): void;
  close(): Promise<void>;
}

export async function startSecretsManager(
  secrets: Readonly<Record<string, string>>,
): Promise<SecretsManagerServer> {
  let isAway = true;
  const server = createServer(async (request, response) => {
    const { SecretId: id } = (await json(request)) as { SecretId: string };
    const known = request.headers["x-amz-target"] === "secretsmanager.GetSecretValue" && id in secrets;
    const [status, body] = isAway
      ? [503, { __type: "ServiceUnavailable" }]
      : known
        ? [200, { Name: id, SecretString: secrets[id] }]
        : [400, { __type: "ResourceNotFoundException" }];
    response.writeHead(status, { "content-type": "application/x-amz-json-1.1" }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    comeBack() {
      isAway = false;
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
