import type { Logger } from "../base/logger.js";
import { memoisePromise } from "../base/memoise-promise.js";
import { safeReason } from "../base/safe-reason.js";
import { readLogLevel } from "../config/environment.js";
import { InvalidArgumentError } from "../errors.js";
import type { LogLevel } from "../telemetry/json-logger.js";
import type { Answer, IncomingRequest } from "../webhooks/http.js";
import { refusedAnswer } from "../webhooks/responses.js";
import type { Service } from "./create-service.js";

/** The part of a service that functions use. */
export type HostedService = Pick<Service<never, never>, "receiver" | "dispatch" | "maintain" | "close">;

/** Makes the service. `logger` writes to the platform's log. */
export type OpenService = (host: { readonly logger: Logger }) => HostedService | Promise<HostedService>;

export interface ServiceHost {
  /** The service, made once for all invocations of a process. Rejects when it could not be made; the next call tries again. */
  ready(): Promise<HostedService>;
  /** Receives a message. Returns 503 when the service could not be made. */
  receive(request: IncomingRequest): Promise<Answer>;
}

/** Makes a service for functions. It starts while the module loads: platforms give a function the most processor time then. */
export function hostService(
  open: OpenService,
  loggerAt: (level: LogLevel) => Logger,
  what: string,
): ServiceHost {
  const ready = memoisePromise(async () => {
    if (typeof open !== "function")
      throw new InvalidArgumentError(`${what} takes a function that returns the service, not the service.`);
    const service = await open({ logger: loggerAt(readLogLevel()) });
    if (typeof service?.receiver?.handle === "function") return service;
    throw new InvalidArgumentError(`${what}: the function must return a service of createService.`);
  });
  ready().catch(() => {}); // the first invocation tries again and reports it
  return {
    ready,
    async receive(request) {
      let service: HostedService;
      try {
        service = await ready();
      } catch (error) {
        const fields = { status: 503, reason: safeReason(error) };
        loggerAt("info").error("Inbox: service could not be created", fields);
        return refusedAnswer("unavailable");
      }
      return service.receiver.handle(request);
    },
  };
}
