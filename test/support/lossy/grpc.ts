import {
  type ClientHttp2Session,
  connect,
  constants,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import { buffer } from "node:stream/consumers";
import { type Exchange, partOf, type Receiver } from "./line.js";

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

/** Takes whole unary gRPC calls of any method as the bytes that they are. */
export function createGrpcServer(run: (exchange: Exchange<Answer>) => void, to: Receiver): Http2Server {
  const server = createServer();
  const shared = sharedSession(to);
  server.on("stream", async (stream, headers) => {
    stream.on("error", () => {});
    const body = await buffer(stream).catch(() => undefined); // none when the sender ended in the middle
    if (body !== undefined && !stream.aborted) run(exchangeOf(stream, headers, body, shared, to));
  });
  return server;
}

function openSession(to: Receiver): ClientHttp2Session {
  return connect("http://receiver", { createConnection: to.dial }).on("error", () => {});
}

/** Returns the session for whole calls: the same one until it ends or the receiver has another address. */
function sharedSession(to: Receiver): () => ClientHttp2Session {
  let session: ClientHttp2Session | undefined;
  let address = to.address;
  return () => {
    if (session === undefined || session.closed || session.destroyed || address !== to.address) {
      session?.close(); // it ends when its calls have
      session = openSession(to);
      address = to.address;
    }
    return session;
  };
}

function exchangeOf(
  sender: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  body: Buffer,
  shared: () => ClientHttp2Session,
  to: Receiver,
): Exchange<Answer> {
  return {
    async forward() {
      const call = shared()
        .request(headers)
        .on("error", () => {});
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
    },
    async forwardPart(fraction) {
      const session = openSession(to); // of its own, because it is cut
      try {
        const call = session.request(headers);
        await new Promise<void>((resolve, reject) => {
          call.on("error", reject);
          call.write(partOf(body, fraction), (error) => (error ? reject(error) : resolve()));
        });
      } finally {
        session.destroy();
      }
    },
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
