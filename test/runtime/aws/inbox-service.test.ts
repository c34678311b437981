import type { APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeServiceFunctions } from "../inbox-service-scenarios.js";
import { openScenario } from "../scenarios.js";
import { type BundleFolder, bundleServiceApp } from "./bundle-folder.js";
import { startHttpApi } from "./http-api.js";
import { httpEvent } from "./http-events.js";
import { lambdaFunction } from "./lambda-function.js";

let bundles: BundleFolder;
beforeAll(async () => {
  bundles = await bundleServiceApp("postgres");
});
afterAll(() => bundles.remove());

const start = (env: Readonly<Record<string, string>>) =>
  lambdaFunction({ folder: bundles.folder, handler: "inbox-service.handler", env });

describeServiceFunctions({
  name: "Lambda",
  async start(env) {
    const target = start(env);
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

it("SVC-06 a key in the path is decoded once, whether the gateway has decoded it already (HTTP API) or not (function URL)", async () => {
  const scenario = await openScenario();
  const token = "scenario-token-0123456789";
  const service = start({ ...scenario.env, INBOX_SERVICE_TOKENS: token });
  const headers = { authorization: `Bearer ${token}` };
  const call = async (event: Parameters<typeof httpEvent>[0]) => {
    const result = await service.invoke<APIGatewayProxyStructuredResultV2>(httpEvent({ headers, ...event }));
    return [result.statusCode, (JSON.parse(result.body!) as { status: string }).status];
  };
  try {
    const keys = ["a/b", "%41", "100%", "c d", "\u00fc"];
    for (const key of keys) {
      const body = JSON.stringify({ key });
      expect(await call({ rawPath: "/prod/v1/inbox/try-begin", body })).toEqual([200, "Acquired"]);
      expect(await call({ method: "GET", rawPath: `/prod/v1/inbox/${key}` }), key).toEqual([200, "Leased"]);
      const { requestContext } = httpEvent();
      const domainName = "abcdefgh.lambda-url.eu-central-1.on.aws";
      const rawPath = `/v1/inbox/${encodeURIComponent(key)}`;
      const url = { method: "GET", rawPath, requestContext: { ...requestContext, domainName } };
      url.requestContext.http = { ...requestContext.http, method: "GET" };
      expect(await call(url), key).toEqual([200, "Leased"]);
    }
  } finally {
    await service.close();
    await scenario.close();
  }
});
