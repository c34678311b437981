import { createHash, randomBytes } from "node:crypto";
import { Agent, createServer, request } from "node:http";
import { buffer } from "node:stream/consumers";
import { Client, credentials, Metadata, Server, ServerCredentials, status } from "@grpc/grpc-js";
import { type LoopbackAddress, listenOn } from "../../support/loopback.js";
import { openSockets } from "../../support/open-sockets.js";

/** A receiver that returns the bytes that it got, and notes them. */
export interface EchoReceiver {
  readonly address: LoopbackAddress;
  /** The hashes of all bodies, in the order in which they arrived whole. */
  readonly received: readonly string[];
  close(): Promise<void>;
}

export interface EchoSender {
  /** Rejects when there is no whole answer. */
  send(body: Buffer): Promise<Buffer>;
  close(): void;
}

export const hashOf = (body: Buffer) => createHash("sha256").update(body).digest("hex");

/** Bodies of all lengths, none like another. */
export const bodies = (count: number) =>
  Array.from({ length: count }, (_, i) =>
    Buffer.concat([Buffer.from(`${i} `), randomBytes((i * 97) % 3_000)]),
  );

export async function startHttpEcho(listen: LoopbackAddress): Promise<EchoReceiver> {
  const received: string[] = [];
  const sockets = openSockets();
  const server = createServer(async (incoming, response) => {
    const body = await buffer(incoming).catch(() => undefined);
    if (body === undefined) return;
    received.push(hashOf(body));
    response.setHeader("x-headers", incoming.rawHeaders.join("|"));
    if (incoming.url === "/chunked") response.write(body.subarray(0, 1));
    response.end(incoming.url === "/chunked" ? body.subarray(1) : body);
  });
  server.on("connection", (socket) => sockets.add(socket));
  const address = await listenOn(server, listen);
  return {
    address,
    received,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      sockets.destroyAll();
      await closed;
    },
  };
}

export const httpOptions = (to: LoopbackAddress) =>
  "path" in to ? { socketPath: to.path } : { host: "127.0.0.1", port: to.port };

export function httpSender(to: LoopbackAddress, path = "/echo"): EchoSender {
  const agent = new Agent({ keepAlive: true });
  return {
    send: (body) =>
      new Promise((resolve, reject) => {
        // without a length of its own, a body in two pieces is sent in chunks
        const outgoing = request({ ...httpOptions(to), agent, path, method: "POST" }, (answer) => {
          buffer(answer).then(resolve, reject);
        });
        outgoing.on("error", reject);
        if (path === "/chunked") outgoing.write(body.subarray(0, 1));
        outgoing.end(path === "/chunked" ? body.subarray(1) : body);
      }),
    close: () => agent.destroy(),
  };
}

const echo = "/test.Echo/Echo";
const same = (bytes: Buffer) => bytes;

export async function startGrpcEcho(): Promise<EchoReceiver> {
  const received: string[] = [];
  const server = new Server();
  server.register<Buffer, Buffer>(
    echo,
    (
      call: { request: Buffer; metadata: Metadata },
      callback: (error: object | null, value?: Buffer) => void,
    ) => {
      received.push(hashOf(call.request));
      if (call.metadata.get("x-refuse").length > 0)
        callback({ code: status.PERMISSION_DENIED, details: "refused" });
      else callback(null, call.request);
    },
    same,
    same,
    "unary",
  );
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  return {
    address: { port },
    received,
    async close() {
      server.forceShutdown();
    },
  };
}

export function grpcSender(to: { readonly port: number }, metadata = new Metadata()): EchoSender {
  const client = new Client(`127.0.0.1:${to.port}`, credentials.createInsecure());
  return {
    send: (body) =>
      new Promise((resolve, reject) => {
        client.makeUnaryRequest(echo, same, same, body, metadata, (error, answer) =>
          error ? reject(error) : resolve(answer!),
        );
      }),
    close: () => client.close(),
  };
}
