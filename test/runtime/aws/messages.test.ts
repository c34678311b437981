import { afterAll, beforeAll } from "vitest";
import { describeMessageFunctions } from "../message-scenarios.js";
import { type BundleFolder, bundleMessageApp, sqlitePackages } from "./bundle-folder.js";
import { startHttpApi } from "./http-api.js";
import { lambdaFunction } from "./lambda-function.js";

const schedule = { source: "aws.events", "detail-type": "Scheduled Event", detail: {} };
const databases = { postgres: [], sqlite: sqlitePackages } as const;

for (const database of ["postgres", "sqlite"] as const) {
  let bundles: BundleFolder;
  beforeAll(async () => {
    bundles = await bundleMessageApp(database, databases[database]);
  });
  afterAll(() => bundles.remove());

  describeMessageFunctions({
    name: "Lambda",
    database,
    killsRequests: true,
    async start(env, timeoutMs) {
      const start = (name: string) =>
        lambdaFunction({ folder: bundles.folder, handler: `${name}.handler`, env, timeoutMs });
      const functions = {
        receive: start("receive"),
        dispatch: start("dispatch"),
        maintain: start("maintain"),
      };
      const api = await startHttpApi(functions.receive);
      return {
        address: `${api.url}/_rf/receive`,
        run: (name) => functions[name].invoke(schedule),
        logs: () =>
          Object.values(functions)
            .map((one) => one.logs())
            .join("\n"),
        async stop() {
          await api.close();
          await Promise.all(Object.values(functions).map((one) => one.close()));
        },
      };
    },
  });
}
