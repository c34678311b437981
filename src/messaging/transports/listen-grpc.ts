import { createSecureServer, createServer, type Http2Server, type ServerHttp2Session } from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { listening } from "../../base/node-server.js";
import { openBodies } from "../../base/open-bodies.js";
import { answerCall, type GrpcCalls } from "./grpc-call.js";
import { grpcTarget } from "./grpc-target.js";
import { type Listener, type ListenSettings, requireCertificate } from "./listen-settings.js";

/** With `fetch`, whose own limit is not known. */
const usualMessageBytes = 16 * 1_048_576;
/** As of a receiver by HTTP: all messages that are read at the same time, before their signatures are verified. */
const unverifiedBytes = 64 * 1_048_576;
const bodyMs = 30_000;

/** No connection is older than this, plus the time in which its calls may end: its senders connect anew. */
const connectionMs = 300_000;
const graceMs = 60_000;

const limits = {
  settings: { maxConcurrentStreams: 256 }, // of one connection
  maxSessionMemory: 64, // MB: of responses that are not read
} as const;

/**
 * A gRPC server. Each message becomes the body that the receiver would get by HTTP, so one receiver serves both. It is made
 * of node:http2 alone: `@grpc/grpc-js` keeps what comes of every message in memory, and has no bound for all of them.
 */
export async function listenGrpc(settings: ListenSettings): Promise<Listener> {
  const { isSecure, authority, path } = grpcTarget(settings.address);
  const maxBytes = settings.receiver?.maxBodyBytes ?? usualMessageBytes;
  const unverified = openBodies({ maxBytes: Math.max(unverifiedBytes, maxBytes) });
  const calls: GrpcCalls = { settings, path, maxBytes, bodyMs, unverified };
  const server = isSecure ? secureServer(settings) : createServer(limits);
  const connections = openConnections(server);
  server.on("stream", (stream, headers) => void answerCall(stream, headers, calls));
  const at = authority.lastIndexOf(":");
  const host = authority.slice(0, at);
  await listening(server, { host: host.replace(/^\[(.*)\]$/, "$1"), port: Number(authority.slice(at + 1)) });
  const { port } = server.address() as AddressInfo;
  return {
    address: `${isSecure ? "grpcs" : "grpc"}://${host}:${port}${path}`,
    close: () =>
      new Promise((resolve) => {
        const late = setTimeout(connections.destroy, settings.stopMs);
        server.close(() => {
          clearTimeout(late);
          resolve();
        });
        connections.end();
      }),
  };
}

function secureServer(settings: ListenSettings): Http2Server {
  const tls = requireCertificate(settings);
  const asksForCertificate = tls.ca !== undefined;
  return createSecureServer({
    ...limits,
    ...tls,
    requestCert: asksForCertificate,
    rejectUnauthorized: asksForCertificate,
  });
}

/** Ends connections that are too old, and all of them when the server closes. */
function openConnections(server: Http2Server) {
  const sockets = new Set<Socket>();
  const sessions = new Set<ServerHttp2Session>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    const old = setTimeout(() => socket.destroy(), connectionMs + graceMs).unref();
    socket.once("close", () => {
      clearTimeout(old);
      sockets.delete(socket);
    });
  });
  server.on("session", (session) => {
    sessions.add(session);
    session.on("error", () => {}); // the sender has gone
    const old = setTimeout(() => session.close(), connectionMs).unref();
    session.once("close", () => {
      clearTimeout(old);
      sessions.delete(session);
    });
  });
  return {
    /** Lets running calls end. */
    end(): void {
      for (const session of sessions) session.close();
    },
    destroy(): void {
      for (const socket of sockets) socket.destroy();
    },
  };
}
