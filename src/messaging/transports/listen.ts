import { loggerOf } from "../../base/logger.js";
import { InvalidArgumentError } from "../../errors.js";
import { refuseUnknown, requireDuration } from "../../queue/arguments.js";
import { receivePath, schemeOf } from "./address.js";
import { grpcSchemes } from "./grpc-target.js";
import { httpSchemes } from "./http-target.js";
import type { Listener, ListenOptions } from "./listen-settings.js";

const defaults = { stopMs: 10_000, path: receivePath } as const;

/**
 * Listens for messages on a port, a socket or a pipe.
 *
 * @example
 * const listener = await listen({ address: "unix:///tmp/rf-orders.sock", receiver: orders.receiver });
 */
export async function listen(options: ListenOptions): Promise<Listener> {
  refuseUnknown(options, ["address", "receiver", "fetch", "tls", "stopMs", "path", "logger"], "listen");
  const { receiver } = options;
  const fetch = options.fetch ?? receiver?.fetch;
  if (fetch === undefined || (options.fetch !== undefined && receiver !== undefined))
    throw new InvalidArgumentError("listen needs what responds: receiver, or fetch, and not both.");
  const merged = { ...defaults, ...options, fetch };
  requireDuration(merged.stopMs, "listen: stopMs");
  if (typeof merged.fetch !== "function")
    throw new InvalidArgumentError("listen: fetch must be a function, such as service.receiver.fetch.");
  const settings = { ...merged, logger: loggerOf(merged.logger) };
  const scheme = schemeOf(options.address);
  if (includes(grpcSchemes, scheme)) return (await import("./listen-grpc.js")).listenGrpc(settings);
  if (includes(httpSchemes, scheme)) return (await import("./listen-http.js")).listenHttp(settings);
  throw new InvalidArgumentError(
    `listen: unknown scheme ${scheme}// of the address. Known: ${[...httpSchemes, ...grpcSchemes].join("// ")}//`,
  );
}

const includes = (schemes: readonly string[], scheme: string): boolean => schemes.includes(scheme);
