import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { app as functionApp, type HttpRequest, type HttpResponseInit } from "@azure/functions";
import type { AppDefinition, AppService } from "../../app/definition.js";
import type { GithubRecoveryDefinition } from "../../app/github-recovery.js";
import { type AppJobs, openJobs } from "../../app/jobs.js";
import { unavailableWebhooks } from "../../app/sources.js";
import { memoisePromise } from "../../base/async.js";
import { omitUndefined } from "../../base/defined.js";
import { type Logger, safeReason } from "../../base/logger.js";
import {
  type AzureSettings,
  type FunctionGroup,
  functionGroupsIn,
  readAzureSettings,
} from "../../config/azure-settings.js";
import {
  namesGithubHooks,
  processEnv,
  readEnvironment,
  readGithubRecovery,
  readLogLevel,
  readMessaging,
} from "../../config/environment.js";
import { env, resolveThrough } from "../../config/secret-reference.js";
import type { PlainResponse } from "../../http/plain.js";
import type { TriggerMessage } from "../../middleware/consume.js";
import { tenantBatchesIn } from "../../tenants/fan-out/tenant-batch.js";
import { runTimeMs } from "./function-timeout.js";
import {
  allMethods,
  fromPlainResponse,
  plainRequest,
  requestFromHost,
  toHttpResponse,
} from "./http-trigger.js";
import { inInvocation, invocationLogger, timedJobs } from "./invocations.js";
import { azureSecrets } from "./key-vault.js";
import { serviceBusHandler, storageQueueHandler } from "./middleware.js";
import { azureFanOut, azureWakeUp, logPoisonQueues } from "./wake-up.js";

/**
 * Registers an app's functions with the host: all of them, or the groups that `ONCEBOX_FUNCTIONS` names. They share one
 * app per process.
 * - `webhook`: by HTTP
 * - `dispatch`, `reap`, `cleanup`: by timers
 * - `wakeup`: dispatches too, by the queue that `ONCEBOX_WAKE_QUEUE` names
 * - `inbox-service`, `inbox-service-document`: by HTTP, if the app has a service
 * - `admin`: by HTTP, if the app has a diagnostics API
 * - `consume`, `consume-bus`: by the queues that `ONCEBOX_CONSUME_QUEUE` and `ONCEBOX_CONSUME_BUS_QUEUE` name, if the app
 *   has a consumer
 * - `recoverGithub`: by a timer, for the webhooks that `ONCEBOX_RECOVER_GITHUB` names
 * - `migrate`: by HTTP, only if `ONCEBOX_FUNCTIONS` names it
 *
 * @example
 * // main.ts, which package.json's "main" names
 * import { registerFunctions } from "oncebox/azure";
 * import app from "./app.js";
 *
 * registerFunctions(app);
 */
export function registerFunctions(definition: AppDefinition): void {
  const groups = functionGroupsIn(processEnv);
  if (groups.size === 1 && groups.has("messaging")) return; // registerMessageFunctions registers those
  const app = coldStart(onlyGroups(definition, groups));
  // HTTP is registered before anything can throw. An error before the first registration leaves an app without functions,
  // which answers 404 to every request. An error after it stops the start, and the host reports it.
  if (groups.has("webhook")) registerHttp(app, webhookFunction);
  if (groups.has("service") && definition.service !== undefined)
    registerHttp(app, inboxServiceFunctions(definition.service));
  if (groups.has("admin") && definition.admin !== undefined) registerHttp(app, adminFunctions);
  const settings = readAzureSettings();
  const job = timedJobs(app, runTimeMs(settings));
  if (groups.has("migrate")) registerMigration(app, settings);
  if (groups.has("work")) registerWork(app, definition, settings, job);
  if (groups.has("work") && namesGithubHooks(processEnv))
    registerRecovery(settings, () => readGithubRecovery(processEnv)!);
}

/** Without what the other groups serve: this function app may not read their secrets. */
function onlyGroups(definition: AppDefinition, groups: ReadonlySet<FunctionGroup>): AppDefinition {
  const { service, admin, ...rest } = definition;
  return {
    ...rest,
    ...(service !== undefined && groups.has("service") && { service }),
    ...(admin !== undefined && groups.has("admin") && { admin }),
  };
}

/** Makes the app once for all invocations of a process. It starts while the entry point loads. */
function coldStart(definition: AppDefinition): () => Promise<AppJobs> {
  const app = memoisePromise(async () => {
    const environment = await readEnvironment();
    const settings = readAzureSettings(environment.env);
    const wakeUp = azureWakeUp(settings);
    const fanOut = definition.tenants === undefined ? undefined : azureFanOut(settings);
    return openJobs(definition, {
      environment,
      resolveSecret: azureSecrets(environment.env),
      logger: definition.logger ?? invocationLogger(environment.logLevel),
      ...omitUndefined({ wakeUp, fanOut }),
    });
  });
  app().catch(() => {}); // the first invocation tries again and reports it
  return app;
}

interface HttpFunctions {
  /** By function, because each has one route. The app finds out what a path names. */
  readonly routes: Readonly<Record<string, string>>;
  respond(app: AppJobs, request: HttpRequest): Promise<HttpResponseInit>;
  /** Logs why the app could not start, and returns a 503. */
  unavailable(logger: Logger, reason: string): Promise<PlainResponse>;
}

/** Registers functions that authenticate the caller themselves: by a signature, or by bearer tokens. */
function registerHttp(app: () => Promise<AppJobs>, { routes, respond, unavailable }: HttpFunctions): void {
  const handle = async (request: HttpRequest): Promise<HttpResponseInit> => {
    let running: AppJobs;
    try {
      running = await app();
    } catch (error) {
      // The next request tries again, in case a secret store was away.
      return fromPlainResponse(await unavailable(invocationLogger("info"), safeReason(error)));
    }
    return respond(running, request);
  };
  for (const [name, route] of Object.entries(routes)) {
    functionApp.http(name, {
      route,
      methods: [...allMethods],
      authLevel: "anonymous",
      handler: (request, context) => inInvocation(context, () => handle(request)),
    });
  }
}

const webhookFunction: HttpFunctions = {
  routes: { webhook: "webhooks/{source}/{tenant?}" },
  respond: async ({ webhook }, request) => toHttpResponse(await webhook(requestFromHost(request))),
  unavailable: async (logger, reason) => unavailableWebhooks(logger, reason),
};

const inboxServiceFunctions = ({ auth }: AppService): HttpFunctions => ({
  routes: { "inbox-service": "v1/inbox/{*path}", "inbox-service-document": "v1/openapi.json" },
  respond: async ({ service }, request) => fromPlainResponse(await service!.respond(plainRequest(request))),
  async unavailable(logger, reason) {
    const { unavailableService } = await import("../../inbox-store/http/responses.js");
    return unavailableService(auth ?? "bearer", logger, reason);
  },
});

const adminFunctions: HttpFunctions = {
  routes: { admin: "_oncebox/{*path}" },
  respond: async ({ admin }, request) => fromPlainResponse(await admin!.respond(plainRequest(request))),
  async unavailable(logger, reason) {
    const { unavailableAdmin } = await import("../../http/admin-responses.js");
    return unavailableAdmin(logger, reason);
  },
};

/** Timers and queues: everything that no request starts. */
function registerWork(
  app: () => Promise<AppJobs>,
  definition: AppDefinition,
  settings: AzureSettings,
  job: ReturnType<typeof timedJobs<AppJobs>>,
): void {
  const { schedules, wakeUp, queueConnection: connection } = settings;
  functionApp.timer("dispatch", {
    schedule: schedules.dispatch,
    handler: job((ready, budget) => ready.dispatch(budget)),
  });
  functionApp.timer("reap", {
    schedule: schedules.reap,
    handler: job(async (ready, budget) => {
      const [report] = await Promise.all([
        ready.reap(budget),
        logPoisonQueues(settings.poisonQueues, invocationLogger("info")),
      ]);
      return report;
    }),
  });
  functionApp.timer("cleanup", {
    schedule: schedules.cleanup,
    handler: job((ready, budget) => ready.cleanup(budget)),
  });
  if (wakeUp !== undefined) {
    functionApp.storageQueue("wakeup", {
      queueName: wakeUp.queue,
      connection,
      handler: job((ready, budget, message) =>
        ready.dispatch(budget, { wokenUp: true, tenantBatches: tenantBatchesIn([message]) }),
      ),
    });
  }
  if (definition.consumer !== undefined) registerConsumers(app, settings);
}

function registerConsumers(
  app: () => Promise<AppJobs>,
  { consumeQueue, consumeBusQueue, queueConnection: connection }: AzureSettings,
): void {
  const options = { handle: async (message: TriggerMessage) => (await app()).consume!(message) };
  if (consumeQueue !== undefined) {
    const consume = storageQueueHandler(options);
    functionApp.storageQueue("consume", {
      queueName: consumeQueue,
      connection,
      handler: (message, context) => inInvocation(context, () => consume(message, context)),
    });
  }
  if (consumeBusQueue !== undefined) {
    const consume = serviceBusHandler(options);
    functionApp.serviceBusQueue("consume-bus", {
      queueName: consumeBusQueue,
      connection: "ONCEBOX_BUS",
      handler: (message, context) => inInvocation(context, () => consume(message, context)),
    });
  }
}

/**
 * `migrate`: by HTTP, with the function's key. It creates tables, roles and users as the identity of its function app,
 * which has more rights than the others. A deployment calls it before the other apps get their code.
 */
function registerMigration(
  app: () => Promise<AppJobs>,
  { appFolder = "" }: Pick<AzureSettings, "appFolder">,
): void {
  const script = (name: string) => () => readFile(join(appFolder, name), "utf8");
  const scripts = { sqlserver: script("users-sqlserver.sql"), postgres: script("users-postgres.sql") };
  const migrate = async (): Promise<HttpResponseInit> => {
    const logger = invocationLogger("info");
    try {
      // Only this function needs them, and no other app should load them.
      const { readDatabaseUsers } = await import("../../config/database-users.js");
      const { prepareDatabases } = await import("../../app/prepare-databases.js");
      const messaging = readMessaging() ? { url: ownDatabaseUrl } : undefined;
      const result = await prepareDatabases(await app(), { ...readDatabaseUsers(), scripts, messaging });
      logger.info("migrated", { applied: result.applied.length });
      return { status: 200, jsonBody: result };
    } catch (error) {
      const reason = safeReason(error); // the caller has the key, and needs to know why it failed
      logger.error("migration failed", { reason });
      return { status: 500, jsonBody: { error: reason } };
    }
  };
  functionApp.http("migrate", {
    route: "migrate",
    methods: ["POST"],
    authLevel: "function",
    handler: (_, context) => inInvocation(context, migrate),
  });
}

/** Of the deployment's own database, which an app with many tenants does not open. */
const ownDatabaseUrl = (): Promise<string> =>
  resolveThrough(env("ONCEBOX_DATABASE_URL"), azureSecrets(processEnv));

/**
 * Registers the function `recoverGithub`, by a timer (`ONCEBOX_RECOVER_SCHEDULE`). It asks GitHub for failed deliveries,
 * which GitHub itself never sends again. It needs no database.
 *
 * @example
 * registerGithubRecovery({
 *   hooks: [{ repository: "acme/shop", hookId: 123456789 }],
 *   token: { from: "azure-key-vault", vault: "https://shop.vault.azure.net", name: "github-token" },
 * });
 */
export function registerGithubRecovery(definition: GithubRecoveryDefinition): void {
  registerRecovery(readAzureSettings(), () => definition);
}

/** A wrong definition is an error of each run, and not of the start: the other functions do not need it. */
function registerRecovery(settings: AzureSettings, definition: () => GithubRecoveryDefinition): void {
  const open = async () => {
    const { githubRecoveryJob } = await import("../../app/github-recovery.js"); // few apps have it
    const recover = githubRecoveryJob(definition(), {
      resolveSecret: azureSecrets(processEnv),
      logger: invocationLogger(readLogLevel()),
    });
    return { recover, close: async () => {} };
  };
  const job = timedJobs(open, runTimeMs(settings));
  functionApp.timer("recoverGithub", {
    schedule: settings.schedules.recover,
    handler: job((ready, budget) => ready.recover(budget)),
  });
}
