import { randomUUID } from "node:crypto";
import { link, lstat, rename, unlink } from "node:fs/promises";
import * as http from "node:http";
import * as https from "node:https";
import { type AddressInfo, connect } from "node:net";
import { sleep } from "../../base/async.js";
import { safeReason } from "../../base/logger.js";
import { InvalidOperationError } from "../../errors.js";
import { closeServer, listening, respondTo } from "../../http/node.js";
import { respondPlainly } from "../../http/plain.js";
import { httpTarget } from "./address.js";
import { type Listener, type ListenSettings, requireCertificate } from "./listen.js";

/** Longer than the 60 s after which load balancers and our own senders drop an idle connection: the sender should be first. */
const keepAliveMs = 65_000;

/** Twice the time after which a sender gives up by default. Node would wait five minutes for a slow body. */
const limits = { requestTimeout: 60_000 } as const;

/** An HTTP server on TCP, a Unix socket or a Windows pipe. */
export async function listenHttp(settings: ListenSettings): Promise<Listener> {
  const { stopMs, logger, address } = settings;
  const { isSecure, options } = httpTarget(address);
  const failed = (error: unknown) => logger.error("receiving failed", { error: safeReason(error) });
  const server = createServer(settings, isSecure, failed);
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

function createServer(
  settings: ListenSettings,
  isSecure: boolean,
  failed: (error: unknown) => void,
): http.Server {
  const { fetch, receiver } = settings;
  const listener: http.RequestListener =
    receiver === undefined
      ? (incoming, outgoing) => void respondTo(incoming, outgoing, fetch, failed)
      : (incoming, outgoing) => void respondPlainly(incoming, outgoing, receiver.respond, failed);
  if (!isSecure) return http.createServer(limits, listener);
  const tls = requireCertificate(settings);
  const asksForCertificate = tls.ca !== undefined;
  return https.createServer(
    { ...limits, ...tls, requestCert: asksForCertificate, rejectUnauthorized: asksForCertificate },
    listener,
  );
}

/** Several processes may start at once, and each may find the file of a killed one, so there are a few attempts. */
async function listenOnSocket(server: http.Server, path: string): Promise<void> {
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

/**
 * Removes the socket file of a process that was killed, so that the next one can listen there. Refuses a socket that a
 * process listens on, and a file that is no socket.
 */
async function freeSocket(path: string): Promise<void> {
  const found = await lstat(path).catch(ignoreMissing);
  if (found === undefined) return;
  if (!found.isSocket()) {
    throw new InvalidOperationError(`${path} is not a socket. Remove it, or listen on another path.`);
  }
  // A process that starts has the file an instant before it accepts connections, so a second look follows.
  for (const waitMs of [0, 50]) {
    await sleep(waitMs);
    if (await isServed(path)) throw inUse(path);
  }
  // Another process may have removed the file, too, and listen here by now. So the file is set aside first, tried once
  // more, and put back if it is in use after all.
  const aside = `${path}.${randomUUID().slice(0, 8)}`;
  if ((await rename(path, aside).then(() => true, ignoreMissing)) === undefined) return;
  const isTaken = await isServed(aside);
  if (isTaken) await link(aside, path);
  await unlink(aside);
  if (isTaken) throw inUse(path);
}

const inUse = (path: string): InvalidOperationError =>
  new InvalidOperationError(`A process already listens on ${path}. Stop it, or listen on another path.`);

/** A process listens if it accepts a connection. One that is too busy to accept it listens as well. */
const isServed = (path: string): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = connect(path);
    const end = (served: boolean) => {
      probe.destroy();
      resolve(served);
    };
    probe.once("connect", () => end(true));
    probe.once("error", ({ code }: NodeJS.ErrnoException) =>
      end(code !== "ECONNREFUSED" && code !== "ENOENT"),
    );
  });

const ignoreMissing = (error: NodeJS.ErrnoException): undefined => {
  if (error.code === "ENOENT") return undefined;
  throw error;
};
