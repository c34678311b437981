import { afterAll, beforeAll } from "vitest";
import { describeAdminFunctions } from "../admin-scenarios.js";
import { type BundleFolder, bundleAdminApp } from "./bundle-folder.js";
import { startHttpApi } from "./http-api.js";
import { lambdaFunction } from "./lambda-function.js";

let bundles: BundleFolder;
beforeAll(async () => {
  bundles = await bundleAdminApp("postgres");
});
afterAll(() => bundles.remove());

describeAdminFunctions({
  name: "Lambda",
  async start(env) {
    const target = lambdaFunction({ folder: bundles.folder, handler: "admin.handler", env });
    const api = await startHttpApi(target);
    return {
      url: api.url,
      logs: () => target.logs(),
      async stop() {
        await api.close();
        await target.close();
      },
    };
  },
});
