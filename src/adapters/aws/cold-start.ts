import middy, { type MiddyfiedHandler } from "@middy/core";
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import type { AppDefinition } from "../../app/definition.js";
import { type AppContext, type OpenApp, openApp, type Platform } from "../../app/open-app.js";
import type { Budget } from "../../base/async.js";
import { memoisePromise, yieldToEventLoop } from "../../base/async.js";
import { omitUndefined } from "../../base/defined.js";
import { safeReason } from "../../base/logger.js";
import { readAwsSettings } from "../../config/aws-settings.js";
import { readEnvironment } from "../../config/environment.js";
import type { PlainRequest, PlainResponse, PlainRoute } from "../../http/plain.js";
import type { ReceivingDatabase } from "../../sql/dialect.js";
import { lambdaBudget, resultFromPlain } from "./events.js";
import { awsSecrets } from "./secrets-manager.js";
import { awsFanOut, awsWakeUp } from "./wake-up.js";

/**
 * Makes the function's job once for all invocations of an instance. It starts, and connects to the database, while the
 * module loads, because Lambda gives a function the most processor time then. When that fails, the first invocation
 * tries again.
 */
export function coldStart<App extends AppContext & { readonly db: ReceivingDatabase | undefined }, Job>(
  definition: AppDefinition,
  openApp: (definition: AppDefinition, platform: Platform) => Promise<App>,
  jobOf: (app: App) => Job | Promise<Job>,
): () => Promise<Job> {
  const job = memoisePromise(async () => {
    const environment = await readEnvironment();
    const settings = readAwsSettings(environment.env);
    const wakeUp = awsWakeUp(settings);
    const fanOut = definition.tenants === undefined ? undefined : awsFanOut(settings);
    const app = await openApp(definition, {
      environment,
      resolveSecret: awsSecrets(environment.env),
      ...omitUndefined({ wakeUp, fanOut }),
    });
    if (app.tenants === undefined) app.db?.driver.open?.().catch(() => {}); // the first statement tries again and reports it
    return jobOf(app);
  });
  const early = job().catch(() => undefined);
  return async () => (await early) ?? job();
}

/** A function of an HTTP API (payload format 2.0) or a function URL. Middy's `use` adds middleware. */
export type HttpFunction = MiddyfiedHandler<APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2>;

interface HttpFunctionOptions {
  /** Makes what responds, once for all invocations. */
  readonly ready: () => Promise<PlainRoute>;
  readonly requestOf: (event: APIGatewayProxyEventV2) => PlainRequest;
  /** Logs why the function cannot respond, and returns a 503. */
  readonly unavailable: (reason: string) => PlainResponse;
}

/** Returns 503 this long before Lambda kills the function: the caller would get 502 then. */
const respondEarlyMs = 100;

export function httpFunction({ ready, requestOf, unavailable }: HttpFunctionOptions): HttpFunction {
  const refused = (reason: string) => resultFromPlain(unavailable(reason));
  return middy<APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2>({
    timeoutEarlyInMillis: respondEarlyMs,
    timeoutEarlyResponse: () => refused("the function's time is up"),
  })
    .use(afterThaw)
    .handler(async (event) => {
      const request = requestOf(event);
      let respond: PlainRoute;
      try {
        respond = await ready();
      } catch (error) {
        return refused(safeReason(error)); // the next request tries again, in case a secret store was away
      }
      return resultFromPlain(await respond(request));
    });
}

/**
 * Lambda freezes the process between invocations. Two ticks of the event loop run everything that fell due meanwhile:
 * closed sockets are noticed and expired idle connections are dropped before the handler takes one from the pool.
 */
export const afterThaw = {
  async before(): Promise<void> {
    await yieldToEventLoop();
    await yieldToEventLoop();
  },
};

/** A Lambda function that runs a job of the app, by a schedule or a wake-up. */
export type JobFunction<Report> = MiddyfiedHandler<unknown, Report>;

/** A job that ends within its budget. */
type TimedJob<Report> = (budget: Budget, event: unknown) => Promise<Report>;

/** A function that runs a job within the time that Lambda leaves it, and returns its report. */
export const timedFunction = <Report>(job: () => Promise<TimedJob<Report>>): JobFunction<Report> =>
  // The job watches its budget and ends in time. Middy's timer would only cut it off.
  middy<unknown, Report>({ timeoutEarlyInMillis: 0 })
    .use(afterThaw)
    .handler(async (event, context) => (await job())(lambdaBudget(context), event));

/** A function that works until there is no work or no time left, and returns a report. */
export const jobFunction = <Report>(
  definition: AppDefinition,
  jobOf: (app: OpenApp) => TimedJob<Report>,
): JobFunction<Report> => timedFunction(coldStart(definition, openApp, jobOf));
