import { afterAll, beforeAll } from "vitest";
import { describeMessageFunctions, type MessageFunctions } from "../message-scenarios.js";
import { type BundleFolder, bundleMessageApp, sqlitePackages } from "./bundle-folder.js";
import { startHttpApi } from "./http-api.js";
import { startInvokeApi } from "./invoke-api.js";
import { type LambdaFunction, lambdaFunction } from "./lambda-function.js";

const schedule = { source: "aws.events", "detail-type": "Scheduled Event", detail: {} };
/** The bundles find these packages in their runtime. */
const databases = { postgres: ["@aws-sdk"], sqlite: sqlitePackages } as const;

for (const database of ["postgres", "sqlite"] as const) {
  let bundles: BundleFolder;
  beforeAll(async () => {
    bundles = await bundleMessageApp(database, databases[database]);
  });
  afterAll(() => bundles.remove());

  const startAll = async (env: Readonly<Record<string, string>>, timeoutMs: number) => {
    const start = (name: string) =>
      lambdaFunction({ folder: bundles.folder, handler: `${name}.handler`, env, timeoutMs });
    const functions = {
      receive: start("receive"),
      dispatch: start("dispatch"),
      maintain: start("maintain"),
    };
    const api = await startHttpApi(functions.receive);
    const made: MessageFunctions = {
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
    return { made, functions };
  };

  describeMessageFunctions({
    name: "Lambda",
    database,
    killsRequests: true,
    start: async (env, timeoutMs) => (await startAll(env, timeoutMs)).made,
    ...(database === "postgres" && {
      async startWoken(env, timeoutMs) {
        const byName: Record<string, LambdaFunction> = {};
        const invokeApi = await startInvokeApi(byName);
        const wakes = {
          ONCEBOX_MESSAGE_DISPATCH_FUNCTION: "dispatch",
          AWS_ENDPOINT_URL_LAMBDA: invokeApi.url,
        };
        const { made, functions } = await startAll({ ...env, ...wakes }, timeoutMs);
        byName.dispatch = functions.dispatch;
        return {
          ...made,
          wakeUps: () => invokeApi.events.length,
          settled: () => invokeApi.settled(),
          async stop() {
            await invokeApi.settled().catch(() => {});
            await invokeApi.close();
            await made.stop();
          },
        };
      },
    }),
  });
}
