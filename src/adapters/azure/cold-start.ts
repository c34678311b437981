import type { AppDefinition } from "../../app/app-definition.js";
import { type App, createApp } from "../../app/create-app.js";
import { defined } from "../../base/defined.js";
import { memoisePromise } from "../../base/memoise-promise.js";
import { readAzureSettings } from "../../config/azure-settings.js";
import { readEnvironment } from "../../config/environment.js";
import { azureFanOut } from "./fan-out.js";
import { invocationLogger } from "./invocation-logger.js";
import { azureSecrets } from "./key-vault.js";
import { azureWakeUp } from "./wake-up.js";

/** Makes the app once for all invocations of a process. It starts while the entry point loads. */
export function coldStart(definition: AppDefinition): () => Promise<App> {
  const app = memoisePromise(async () => {
    const environment = await readEnvironment();
    const settings = readAzureSettings(environment.env);
    const wakeUp = azureWakeUp(settings);
    const fanOut = definition.tenants === undefined ? undefined : azureFanOut(settings);
    return createApp(definition, {
      environment,
      resolveSecret: azureSecrets(environment.env),
      logger: definition.logger ?? invocationLogger(environment.logLevel),
      ...defined({ wakeUp, fanOut }),
    });
  });
  app().catch(() => {}); // the first invocation tries again and reports it
  return app;
}
