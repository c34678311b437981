import type { EventEmitter } from "node:events";
import type { Duplex } from "node:stream";
import type { ClientBase } from "pg";

/** The properties of a pg Client that name its session. pg has them since 8.0; its types do not. */
interface Session {
  readonly processID: number | null;
  readonly secretKey: number | null;
  readonly host: string;
  readonly port: number;
  readonly ssl: unknown;
  readonly sslNegotiation: string;
}

/** pg's `Connection`: the protocol on one socket, without a session. */
interface ProtocolConnection extends EventEmitter {
  readonly stream: Duplex;
  connect(portOrPath: number | string, host?: string): void;
  requestSsl(): void;
  cancel(processID: number, secretKey: number): void;
}

export type MakeConnection = new (config: object) => unknown;

/** A server that does not take the request within this time is frozen or unreachable. */
const longestCancelMs = 2_000;

/**
 * Asks the server to stop the statement that the client runs. A closed socket alone does not stop a statement that waits
 * for a lock: it would still be committed later. The request has a connection of its own, because the pool's may be dead
 * or all in use. It needs no login, takes no session of the server, and passes poolers, which `pg_cancel_backend` does not.
 * Resolves when the server has closed that connection, or after two seconds. Never rejects.
 */
export async function cancelStatement(
  client: ClientBase,
  Connection: MakeConnection,
  stream: unknown,
): Promise<void> {
  const session = client as unknown as Session;
  const { processID, secretKey, host, port, ssl, sslNegotiation } = session;
  if (typeof processID !== "number" || typeof secretKey !== "number") return;
  const connection = new Connection({ ssl, sslNegotiation, stream }) as ProtocolConnection;
  const cancel = (): void => connection.cancel(processID, secretKey);
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, longestCancelMs);
    connection.once("end", () => {
      clearTimeout(timer);
      resolve();
    });
    // A connection that fails closes, too.
    connection.on("error", () => {});
    connection.on("sslconnect", cancel);
    connection.on("connect", () => {
      if (!ssl) cancel();
      else if (sslNegotiation !== "direct") connection.requestSsl();
    });
    if (host.startsWith("/")) connection.connect(`${host}/.s.PGSQL.${port}`);
    else connection.connect(port, host);
  });
  connection.stream.destroy();
}
