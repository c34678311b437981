import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { DispatchFunctionReport } from "../../../src/adapters/aws/index.js";
import { sqliteTenants } from "../../support/many-tenants.js";
import { type BundleFolder, bundleTestApp, sqlitePackages } from "../aws/bundle-folder.js";
import { answerOf, stripeHttpEvent, webhookSecret } from "../aws/http-events.js";
import { lambdaFunction } from "../aws/lambda-function.js";
import { openTenantScenario, type TenantScenario, tenantApp } from "./tenant-scenario.js";

/** One deployment for tenants on PostgreSQL and on SQLite, under Amazon's runtime. */
describe("tenants on different databases, in one bundle", () => {
  let bundles: BundleFolder;
  let scenario: TenantScenario;
  let files: Awaited<ReturnType<typeof sqliteTenants>>;
  beforeAll(async () => {
    bundles = await bundleTestApp(["postgres", "sqlite"], sqlitePackages, tenantApp);
    scenario = await openTenantScenario(3, webhookSecret);
    files = await sqliteTenants(2);
  });
  afterAll(async () => {
    await scenario?.close();
    await files?.remove();
    await bundles?.remove();
  });

  it("FUN-07 FUN-09 every tenant's messages are handled once, and a database that is not built in is reported", async () => {
    const elsewhere = { id: "elsewhere", database: "mssql://nobody:hidden@localhost/none" };
    const env = {
      ...scenario.env,
      TENANTS: JSON.stringify([...JSON.parse(scenario.env.TENANTS!), ...files.tenants, elsewhere]),
    };
    const filled = [...(await scenario.fill("evt"))];
    const [webhook, dispatch] = ["webhook", "dispatch"].map((name) =>
      lambdaFunction({ folder: bundles.folder, handler: `${name}.handler`, env }),
    );
    try {
      for (const { id } of files.tenants) {
        const event = stripeHttpEvent({ id: `evt_${id}`, rawPath: `/webhooks/stripe/${id}` });
        expect(answerOf(await webhook!.invoke(event))).toEqual({ status: 200, outcome: "enqueued" });
        filled.push(`${id} evt_${id}`);
      }
      const ids = scenario.ids.concat(
        files.tenants.map(({ id }) => id),
        elsewhere.id,
      );
      const tenantBatch = { tenants: ids, until: Date.now() + 60_000 };
      const { tenants } = await dispatch!.invoke<DispatchFunctionReport>({
        oncebox: "tenantBatch",
        tenantBatch,
      });
      expect(tenants).toMatchObject({ failed: 1, left: 0 });
      await scenario.expectHandled(filled);
      expect(dispatch!.logs()).toContain('"store":"elsewhere"');
      expect(dispatch!.logs()).not.toContain("hidden");
    } finally {
      await Promise.all([webhook!.close(), dispatch!.close()]);
    }
  });
});
