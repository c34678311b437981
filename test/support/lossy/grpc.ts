import {
  connect,
  constants,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import type { Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import type { Exchange } from "./line.js";
import { partOf } from "./part-of.js";

interface Answer {
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** None when the receiver refused the call: its status is in the headers then. */
  readonly trailers: IncomingHttpHeaders | undefined;
}

/** What a gRPC client reports when its connection is cut. The calls beside this one on the connection go on. */
const unavailable = {
  ":status": 200,
  "content-type": "application/grpc",
  "grpc-status": "14",
  "grpc-message": "connection cut",
};

/** Takes whole unary gRPC calls of any method as the bytes that they are. Each is delivered on a connection of its own. */
export function createGrpcServer(run: (exchange: Exchange<Answer>) => void, dial: () => Socket): Http2Server {
  const server = createServer();
  server.on("stream", async (stream, headers) => {
    stream.on("error", () => {});
    const body = await buffer(stream).catch(() => undefined); // none when the sender ended in the middle
    if (body !== undefined && !stream.aborted) run(exchangeOf(stream, headers, body, dial));
  });
  return server;
}

function exchangeOf(
  sender: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  body: Buffer,
  dial: () => Socket,
): Exchange<Answer> {
  /** Opens a call on a connection of its own, and ends both when `work` is done. */
  async function withCall<T>(work: (call: ReturnType<typeof openCall>) => Promise<T>): Promise<T> {
    const call = openCall(headers, dial);
    try {
      return await work(call);
    } finally {
      call.session!.destroy();
    }
  }
  return {
    forward: () =>
      withCall(async (call) => {
        let answered: IncomingHttpHeaders | undefined;
        let trailers: IncomingHttpHeaders | undefined;
        call.on("response", (received) => {
          answered = received;
        });
        call.on("trailers", (received) => {
          trailers = received;
        });
        call.end(body);
        const answer = await buffer(call);
        if (answered === undefined || !("grpc-status" in { ...answered, ...trailers }))
          throw new Error("The receiver ended the call without a status.");
        return { headers: answered, body: answer, trailers };
      }),
    forwardPart: (fraction) =>
      withCall(
        (call) =>
          new Promise((resolve, reject) => {
            call.on("error", reject);
            call.write(partOf(body, fraction), () => resolve());
          }),
      ),
    answer({ headers, body, trailers }) {
      if (sender.destroyed) return;
      sender.respond(headers, trailers === undefined ? { endStream: true } : { waitForTrailers: true });
      if (trailers === undefined) return;
      sender.on("wantTrailers", () => sender.sendTrailers(trailers));
      sender.end(body);
    },
    async answerPart({ headers, body }, fraction) {
      if (sender.destroyed) throw new Error("The sender is gone.");
      sender.respond(headers);
      await new Promise<void>((resolve) => sender.write(partOf(body, fraction), () => resolve()));
      sender.close(constants.NGHTTP2_INTERNAL_ERROR);
    },
    cut() {
      if (!sender.destroyed && !sender.headersSent) sender.respond(unavailable, { endStream: true });
    },
  };
}

function openCall(headers: IncomingHttpHeaders, dial: () => Socket) {
  const session = connect("http://receiver", { createConnection: dial });
  session.on("error", () => {});
  return session.request(headers);
}
