import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import { type Exchange, partOf, type Receiver } from "./line.js";

interface Answer {
  readonly head: IncomingMessage;
  readonly body: Buffer;
}

/** Takes whole HTTP/1.1 requests. Each is delivered on a connection of its own: no fault of one touches another. */
export function createHttpServer(run: (exchange: Exchange<Answer>) => void, to: Receiver): Server {
  const server = createServer(async (incoming, response) => {
    const body = await buffer(incoming).catch(() => undefined); // none when the sender ended in the middle
    if (body !== undefined) run(exchangeOf(incoming, body, response, to));
  });
  server.keepAliveTimeout = 0; // an idle connection that ends at the wrong moment would be a fault nobody counted
  return server;
}

function exchangeOf(
  incoming: IncomingMessage,
  body: Buffer,
  response: ServerResponse,
  to: Receiver,
): Exchange<Answer> {
  const { method, url, rawHeaders, socket: sender } = incoming;
  return {
    async forward() {
      const receiver = to.dial();
      try {
        const head = await new Promise<IncomingMessage>((resolve, reject) => {
          request({ method, path: url, headers: rawHeaders, createConnection: () => receiver }, resolve)
            .on("error", reject)
            .end(body);
        });
        return { head, body: await buffer(head) };
      } finally {
        receiver.destroy();
      }
    },
    forwardPart: (fraction) =>
      writePart(to.dial(), wireBytes(`${method} ${url} HTTP/1.1`, rawHeaders, body), fraction),
    answer({ head, body }) {
      response.sendDate = false;
      response.writeHead(head.statusCode!, head.statusMessage!, head.rawHeaders).end(body);
    },
    answerPart({ head, body }, fraction) {
      const status = `HTTP/1.1 ${head.statusCode} ${head.statusMessage}`;
      return writePart(sender, wireBytes(status, head.rawHeaders, body), fraction);
    },
    cut() {
      if (!response.writableEnded) sender.destroy();
    },
  };
}

function writePart(socket: Socket, bytes: Buffer, fraction: number): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.write(partOf(bytes, fraction), (error) => {
      socket.destroy();
      if (error) reject(error);
      else resolve();
    });
  });
}

/** A request or an answer as it is on the wire. */
function wireBytes(firstLine: string, rawHeaders: readonly string[], body: Buffer): Buffer {
  const names = rawHeaders.filter((_, i) => i % 2 === 0);
  const lines = names.map((name, i) => `${name}: ${rawHeaders[2 * i + 1]}`);
  const head = Buffer.from(`${[firstLine, ...lines].join("\r\n")}\r\n\r\n`, "latin1");
  const isChunked = names.some((name) => name.toLowerCase() === "transfer-encoding");
  if (!isChunked) return Buffer.concat([head, body]);
  return Buffer.concat([
    head,
    Buffer.from(`${body.length.toString(16)}\r\n`),
    body,
    Buffer.from("\r\n0\r\n\r\n"),
  ]);
}
