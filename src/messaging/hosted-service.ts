import { memoisePromise } from "../base/async.js";
import { type Logger, type LogLevel, safeReason } from "../base/logger.js";
import { readLogLevel } from "../config/environment.js";
import { env, resolveThrough, type SecretResolver } from "../config/secret-reference.js";
import { InvalidArgumentError } from "../errors.js";
import type { PlainResponse } from "../http/plain.js";
import type { Database } from "../sql/dialect.js";
import { refusedResponse } from "../webhooks/responses.js";
import type { HandledRequest } from "./receiver.js";
import type { Service } from "./service.js";

/** The part of a service that functions use. */
export type HostedService = Pick<
  Service<never, never>,
  "receiver" | "dispatch" | "maintain" | "onWake" | "close"
>;

/** What a function app or a Lambda function has for its service. */
export interface ServiceContext {
  /** Writes to the platform's log. */
  readonly logger: Logger;
  /**
   * Opens the database with the URL that `ONCEBOX_DATABASE_URL` has or refers to. It is closed after the service.
   *
   * @example
   * const db = await database((url) => openDatabase(url, { maxConnections: 2 }));
   */
  database(open: (url: string) => Database | Promise<Database>): Promise<Database>;
  /**
   * The secrets in a variable of the environment, one on each line. The variable may name a secret of AWS Secrets Manager or
   * Azure Key Vault instead, as the templates write it.
   */
  secrets(variable: string): Promise<readonly string[]>;
}

/** Makes the service. */
export type OpenService = (context: ServiceContext) => HostedService | Promise<HostedService>;

/** What the platform has for a service. */
export interface ServicePlatform {
  loggerAt(level: LogLevel): Logger;
  readonly resolveSecret: SecretResolver;
}

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
export function hostService(
  open: OpenService,
  platform: ServicePlatform,
  options?: HostOptions,
): ServiceHost {
  if (typeof open !== "function")
    throw new InvalidArgumentError("Give a function that makes the service: () => createService({ … }).");
  const ready = services.get(open) ?? madeOnce(open, platform);
  services.set(open, ready);
  return {
    ready,
    async receive(request) {
      let service: HostedService;
      try {
        service = await ready();
      } catch (error) {
        const fields = { status: 503, reason: safeReason(error) };
        platform.loggerAt("info").error("Inbox: service could not be created", fields);
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

function madeOnce(open: OpenService, platform: ServicePlatform): ServiceHost["ready"] {
  const ready = memoisePromise(async () => {
    const { context, closeDatabases } = contextOf(platform);
    try {
      const service = await open(context);
      if (typeof service?.receiver?.handle === "function") return closingAfter(service, closeDatabases);
      throw new InvalidArgumentError(
        "The function that makes the service must return that of createService.",
      );
    } catch (error) {
      await closeDatabases(); // the next invocation opens another
      throw error;
    }
  });
  ready().catch(() => {}); // the first invocation tries again and reports it
  return ready;
}

function contextOf({ loggerAt, resolveSecret }: ServicePlatform) {
  const opened: Database[] = [];
  const fetch = (variable: string) => resolveThrough(env(variable), resolveSecret);
  const context: ServiceContext = {
    logger: loggerAt(readLogLevel()),
    // A bundle has only the databases that `openUrl` can open.
    async database(openUrl) {
      const db = await openUrl(await fetch("ONCEBOX_DATABASE_URL"));
      opened.push(db);
      return db;
    },
    secrets: async (variable) =>
      (await fetch(variable))
        .split("\n")
        .map((line) => line.trim())
        .filter((line) => line !== ""),
  };
  const closeDatabases = async () => {
    await Promise.all(opened.splice(0).map((db) => db.close()));
  };
  return { context, closeDatabases };
}

const closingAfter = (service: HostedService, closeDatabases: () => Promise<void>): HostedService => ({
  receiver: service.receiver,
  dispatch: (budget) => service.dispatch(budget),
  maintain: (budget) => service.maintain(budget),
  onWake: (wake) => service.onWake(wake),
  async close() {
    await service.close();
    await closeDatabases();
  },
});
