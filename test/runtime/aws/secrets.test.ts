import type { APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type BundleFolder, bundleTestApp, sqlitePackages } from "./bundle-folder.js";
import { type FunctionsDatabase, sqliteForFunctions } from "./functions-database.js";
import { answerOf, stripeHttpEvent } from "./http-events.js";
import { lambdaFunction } from "./lambda-function.js";
import { startSecretsManager } from "./secrets-manager-server.js";

describe("secrets in AWS Secrets Manager", () => {
  let bundles: BundleFolder;
  let data: FunctionsDatabase;

  beforeAll(async () => {
    bundles = await bundleTestApp("sqlite", ["@aws-sdk", ...sqlitePackages]);
    data = await sqliteForFunctions();
  });
  afterAll(async () => {
    await data.close();
    await bundles.remove();
  });

  it("FUN-01 FUN-12 the database's URL and a webhook's secret are fetched; after a failure the store is asked again", async () => {
    const store = await startSecretsManager({
      database: JSON.stringify({ url: data.env.ONCEBOX_DATABASE_URL }),
      stripe: "whsec_from_the_store\n", // as an editor leaves it
    });
    const webhook = lambdaFunction({
      folder: bundles.folder,
      handler: "webhook.handler",
      env: {
        ...data.env,
        AWS_ENDPOINT_URL_SECRETS_MANAGER: store.url,
        ONCEBOX_DATABASE_URL: '{"from": "aws-secrets-manager", "id": "database", "key": "url"}',
        ONCEBOX_WEBHOOKS: JSON.stringify({
          stripe: { scheme: "stripe", secrets: { from: "aws-secrets-manager", id: "stripe" } },
          lost: { scheme: "stripe", secrets: { from: "aws-secrets-manager", id: "nowhere" } },
        }),
      },
    });
    const send = async (secret: string, rawPath = "/webhooks/stripe") => {
      const event = { ...stripeHttpEvent({ id: "evt_1", secret }), rawPath };
      return answerOf(await webhook.invoke<APIGatewayProxyStructuredResultV2>(event));
    };
    try {
      expect(await send("whsec_from_the_store")).toMatchObject({ status: 503 });
      store.comeBack();
      expect(await send("whsec_from_the_store")).toEqual({ status: 200, outcome: "enqueued" });
      expect(await send("whsec_wrong")).toMatchObject({ status: 401 });
      expect(await send("whsec_from_the_store", "/webhooks/lost")).toMatchObject({ status: 503 });
      expect(webhook.started).toBe(1);
      expect(webhook.logs()).not.toContain("whsec_");
    } finally {
      await webhook.close();
      await store.close();
    }
  });
});
