import * as z from "zod/mini";
import { packageVersion } from "../../base/package-version.js";
import { type AdminRoute, appRoute } from "../admin-route.js";
import { name, queryLimit } from "../field-schemas.js";
import type { AdminStores, AdminTenants } from "../queue-stores.js";
import { storeReport } from "../store-report.js";
import { tenantReports } from "../tenant-reports.js";

export interface AppParts {
  readonly stores?: AdminStores | undefined;
  readonly tenants?: AdminTenants | undefined;
}

/** Tenants on a page, and of those whose databases `health` looks at. */
const mostTenants = 100;

export const healthPath = "health";

/** On the app as a whole. */
export function appRoutes({ stores, tenants }: AppParts): readonly AdminRoute[] {
  return [
    appRoute({
      path: healthPath,
      method: "GET",
      request: z.strictObject({}),
      async run(_, { signal }) {
        const reports =
          tenants === undefined
            ? [await storeReport(async () => stores!, { signal })]
            : (await tenantReports(tenants, { limit: mostTenants, signal })).tenants.map(
                ({ tenant, report }) => ({ tenant, ...report }),
              );
        const isWell = reports.every(({ reachable }) => reachable);
        const ok = { status: isWell ? "ok" : "failing", version: packageVersion, stores: reports };
        return { ok, status: isWell ? 200 : 503 };
      },
    }),
    appRoute({
      path: "tenants",
      method: "GET",
      request: z.strictObject({ limit: queryLimit, after: z.optional(name) }),
      async run({ limit = mostTenants, after }, { signal }) {
        if (tenants === undefined) return { ok: { tenants: [], cursor: null } };
        const page = await tenantReports(tenants, { limit, after, signal });
        const shown = page.tenants.map(({ tenant, state, report }) => ({ tenant, state, ...report }));
        return { ok: { tenants: shown, cursor: page.cursor } };
      },
    }),
  ];
}
