import type { RequestListener, Server } from "node:http";
import type { AddressInfo } from "node:net";
import { respondTo } from "../../base/node-http.js";
import { closeServer, listening } from "../../base/node-server.js";
import { respondPlainly } from "../../base/plain-http.js";
import { safeReason } from "../../base/safe-reason.js";
import { freeSocket } from "./free-socket.js";
import { httpTarget } from "./http-target.js";
import { type Listener, type ListenSettings, requireCertificate } from "./listen-settings.js";

/** Longer than the 60 s after which load balancers and our own senders drop an idle connection: the sender should be first. */
const keepAliveMs = 65_000;

/** Twice the time after which a sender gives up by default. Node would wait five minutes for a slow body. */
const limits = { requestTimeout: 60_000 } as const;

/** An HTTP server on TCP, a Unix socket or a Windows pipe. */
export async function listenHttp(settings: ListenSettings): Promise<Listener> {
  const { stopMs, logger, address } = settings;
  const { isSecure, options } = httpTarget(address);
  const failed = (error: unknown) => logger.error("receiving failed", { error: safeReason(error) });
  const server = await createServer(settings, isSecure, failed);
  server.keepAliveTimeout = keepAliveMs;
  const close = () => closeServer(server, stopMs);
  if (typeof options.socketPath === "string") {
    await listenOnSocket(server, options.socketPath);
    return { address, close };
  }
  const { host, port = isSecure ? 443 : 80 } = options;
  await listening(server, { host: host!, port: Number(port) });
  const { port: bound } = server.address() as AddressInfo;
  const shownHost = host!.includes(":") ? `[${host}]` : host;
  return { address: `${isSecure ? "https" : "http"}://${shownHost}:${bound}${options.path}`, close };
}

async function createServer(
  settings: ListenSettings,
  isSecure: boolean,
  failed: (error: unknown) => void,
): Promise<Server> {
  const http = await import("node:http");
  const { fetch, receiver } = settings;
  const listener: RequestListener =
    receiver === undefined
      ? (incoming, outgoing) => void respondTo(incoming, outgoing, fetch, failed)
      : (incoming, outgoing) => void respondPlainly(incoming, outgoing, receiver.respond, failed);
  if (!isSecure) return http.createServer(limits, listener);
  const tls = requireCertificate(settings);
  const asksForCertificate = tls.ca !== undefined;
  const https = await import("node:https");
  return https.createServer(
    { ...limits, ...tls, requestCert: asksForCertificate, rejectUnauthorized: asksForCertificate },
    listener,
  );
}

/** Several processes may start at once, and each may find the file of a killed one, so there are a few attempts. */
async function listenOnSocket(server: Server, path: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await listening(server, { path });
    } catch (error) {
      const isTaken = (error as NodeJS.ErrnoException).code === "EADDRINUSE";
      if (!isTaken || attempt === 5 || process.platform === "win32") throw error;
      await freeSocket(path);
    }
  }
}
