import type { AppContext, Platform } from "../../app/app-context.js";
import type { AppDefinition } from "../../app/app-definition.js";
import { defined } from "../../base/defined.js";
import { memoisePromise } from "../../base/memoise-promise.js";
import { readAwsSettings } from "../../config/aws-settings.js";
import { readEnvironment } from "../../config/environment.js";
import type { ReceivingDatabase } from "../../sql/dialect.js";
import { awsFanOut } from "./fan-out.js";
import { awsSecrets } from "./secrets-manager.js";
import { awsWakeUp } from "./wake-up.js";

interface StartedApp extends AppContext {
  readonly db: ReceivingDatabase | undefined;
}

/**
 * Makes the function's job once for all invocations of an instance. It starts, and connects to the database, while the
 * module loads, because Lambda gives a function the most processor time then. When that fails, the first invocation
 * tries again.
 */
export function coldStart<App extends StartedApp, Job>(
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
      ...defined({ wakeUp, fanOut }),
    });
    if (app.tenants === undefined) app.db?.driver.open?.().catch(() => {}); // the first statement tries again and reports it
    return jobOf(app);
  });
  const early = job().catch(() => undefined);
  return async () => (await early) ?? job();
}
