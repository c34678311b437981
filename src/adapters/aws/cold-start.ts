import type { AppDefinition } from "../../app/app-definition.js";
import type { AppFrame, Platform } from "../../app/app-frame.js";
import { memoisePromise } from "../../base/memoise-promise.js";
import { readAwsSettings } from "../../config/aws-settings.js";
import { readEnvironment } from "../../config/environment.js";
import type { ReceivingDatabase } from "../../sql/dialect.js";
import { awsFanOut } from "./fan-out.js";
import { awsSecrets } from "./secrets-manager.js";
import { awsWakeUp } from "./wake-up.js";

interface StartedApp extends AppFrame {
  readonly db: ReceivingDatabase | undefined;
}

/**
 * The function's job, made once for all invocations of an instance, and begun while the module loads, when Lambda
 * gives the most processor; so is the connection. What failed then, or hung because it was frozen, is tried again by the first invocation.
 */
export function coldStart<App extends StartedApp, Job>(
  definition: AppDefinition,
  openApp: (definition: AppDefinition, platform: Platform) => Promise<App>,
  jobOf: (app: App) => Job,
): () => Promise<Job> {
  const job = memoisePromise(async () => {
    const environment = await readEnvironment();
    const settings = readAwsSettings(environment.env);
    const wakeUp = awsWakeUp(settings);
    const fanOut = definition.tenants === undefined ? undefined : awsFanOut(settings);
    const app = await openApp(definition, {
      environment,
      resolveSecret: awsSecrets(environment.env),
      ...(wakeUp === undefined ? {} : { wakeUp }),
      ...(fanOut === undefined ? {} : { fanOut }),
    });
    if (app.tenants === undefined) app.db?.driver.open?.().catch(() => {}); // told by the call that needs it
    return jobOf(app);
  });
  const early = job().catch(() => undefined);
  return async () => (await early) ?? job();
}
