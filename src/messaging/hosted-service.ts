import { memoisePromise } from "../base/concurrency.js";
import { type Logger, type LogLevel, safeReason } from "../base/logger.js";
import { readLogLevel } from "../config/environment.js";
import { InvalidArgumentError } from "../errors.js";
import type { PlainResponse } from "../http/plain.js";
import { refusedResponse } from "../webhooks/responses.js";
import type { HandledRequest } from "./receiver.js";
import type { Service } from "./service.js";

/** The part of a service that functions use. */
export type HostedService = Pick<
  Service<never, never>,
  "receiver" | "dispatch" | "maintain" | "onWake" | "close"
>;

/** Makes the service. `logger` writes to the platform's log. */
export type OpenService = (host: { readonly logger: Logger }) => HostedService | Promise<HostedService>;

export type LoggerAt = (level: LogLevel) => Logger;

export interface ServiceHost {
  /** The service. Rejects when it could not be made; the next call tries again. */
  ready(): Promise<HostedService>;
  /** Receives a message, or a request for the diagnostics. Returns 503 when the service could not be made. */
  receive(request: HandledRequest): Promise<PlainResponse>;
}

/** Functions in one process that were given the same `open` share its service, and so its connections. */
const services = new WeakMap<OpenService, ServiceHost["ready"]>();

interface HostOptions {
  /** Called before a message is acknowledged whose handler has sent others. They are committed. Must not reject. */
  afterSend(): Promise<void>;
}

/** Runs a service in functions. It is made while the module loads, when platforms give a function the most processor time. */
export function hostService(open: OpenService, loggerAt: LoggerAt, options?: HostOptions): ServiceHost {
  if (typeof open !== "function")
    throw new InvalidArgumentError("Give a function that makes the service: () => createService({ … }).");
  const ready = services.get(open) ?? madeOnce(open, loggerAt);
  services.set(open, ready);
  return {
    ready,
    async receive(request) {
      let service: HostedService;
      try {
        service = await ready();
      } catch (error) {
        const fields = { status: 503, reason: safeReason(error) };
        loggerAt("info").error("Inbox: service could not be created", fields);
        return refusedResponse("unavailable");
      }
      let hasSent = false;
      const unsubscribe = service.onWake(() => {
        hasSent = true;
      });
      const response = await service.receiver.handle(request).finally(unsubscribe);
      if (hasSent) await options?.afterSend();
      return response;
    },
  };
}

function madeOnce(open: OpenService, loggerAt: LoggerAt): ServiceHost["ready"] {
  const ready = memoisePromise(async () => {
    const service = await open({ logger: loggerAt(readLogLevel()) });
    if (typeof service?.receiver?.handle === "function") return service;
    throw new InvalidArgumentError("The function that makes the service must return that of createService.");
  });
  ready().catch(() => {}); // the first invocation tries again and reports it
  return ready;
}
