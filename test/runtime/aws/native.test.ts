import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import type { DispatchReport } from "../../../src/index.js";
import { createOutbox } from "../../../src/index.js";
import { type BundleFolder, bundleTestApp } from "./bundle-folder.js";
import { type FunctionsDatabase, postgresForFunctions } from "./functions-database.js";
import { lambdaFunction } from "./lambda-function.js";

const schedule = { source: "aws.events", "detail-type": "Scheduled Event", detail: {} };

describe("an author's own library in a Lambda function", () => {
  let bundles: BundleFolder;
  let data: FunctionsDatabase;
  beforeAll(async () => {
    const app = fileURLToPath(new URL("native-app.ts", import.meta.url));
    bundles = await bundleTestApp("postgres", [], app);
    data = await postgresForFunctions(inject("postgresUrl"));
  });
  afterAll(async () => {
    await bundles.remove();
    await data.close();
  });

  it("ADD-04 ADD-06 ADD-21 Drizzle writes on tx.native of a bundle, with the acknowledgement and what is returned", async () => {
    await data.inbox.enqueue(
      ["early", "late"].map((messageId) => ({ source: "s", messageId, topic: "order.placed", data: {} })),
    );
    const dispatch = lambdaFunction({ folder: bundles.folder, handler: "dispatch.handler", env: data.env });
    try {
      let acked = 0;
      while (acked < 2) acked += (await dispatch.invoke<DispatchReport>(schedule)).inbox!.acked;
      expect(await data.effects()).toEqual(["early by attempt 0", "late by attempt 1"]);
      const outbox = createOutbox(data.db, { schema: data.env.TEST_SCHEMA! });
      const { messages } = await outbox.list();
      expect(messages.map(({ payload }) => payload).sort()).toEqual([
        '{"messageId":"early"}',
        '{"messageId":"late"}',
      ]);
    } finally {
      await dispatch.close();
    }
  });
});
