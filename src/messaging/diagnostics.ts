import * as z from "zod/mini";
import { withDeadline } from "../base/async.js";
import { safeReason } from "../base/logger.js";
import { packageVersion } from "../base/require-package.js";
import { checkAdminSettings, nameIn } from "../http/admin-access.js";
import { type AdminApi, type AdminApiRoute, adminApi, unavailable } from "../http/admin-api.js";
import { type Answer, adminResults } from "../http/admin-responses.js";
import { guid, queryCursor, queryLimit } from "../http/field-schemas.js";
import { checkFields, readQuery, type Taker } from "../http/fields.js";
import type { CallOptions } from "../queue/work-store.js";
import type { InboxStats, OutboxStats, ServiceManagement } from "./management.js";
import { type DiagnosticPath, diagnosticPaths } from "./receiver.js";
import type { ServiceParts } from "./service-parts.js";

type Reads = Omit<ServiceManagement, "maintain" | "resend">;

/** A service's diagnostics by HTTP. They show what its own functions return, and need an admin token. */
export function serviceDiagnostics(parts: ServiceParts, management: Reads): AdminApi {
  const { serviceId, reports, now } = parts;
  const { tokens, ...given } = parts.options.admin ?? {};
  const settings = checkAdminSettings(given);
  const answers = routeAnswers(serviceId, management);
  const routes = diagnosticPaths.map(
    ({ method, path }) => ({ method, path, ...answers[path] }) as DiagnosticRoute,
  );
  return adminApi({
    routes,
    settings,
    tokens,
    logger: reports.logger,
    clock: now,
    operatorOf: (_, token) => ({ value: nameIn(token) }),
    async read(request, route, names) {
      const query = readQuery(request);
      return "refusal" in query ? query : checkFields({ ...query.value, ...names }, route);
    },
    async run(route, fields, by) {
      const result = await withDeadline(settings.callMs, "The database", async (signal) =>
        adminResults.answer(await route.run(fields, { signal })),
      ).catch(unavailable);
      return { result, by };
    },
  });
}

interface RouteAnswer<Fields> extends Pick<AdminApiRoute, "withoutToken">, Taker<Fields> {
  run(fields: Fields, call: CallOptions): Promise<Answer>;
}

type DiagnosticRoute = AdminApiRoute & RouteAnswer<unknown>;

const noFields = z.strictObject({});
const deadStates = ["Failed", "Expired"] as const;
const failedFields = z.strictObject({
  state: z.optional(z.enum(deadStates, `must be one of ${deadStates.join(", ")}`)),
  limit: queryLimit,
  after: queryCursor,
});

/** Checks that `run` takes what the schema accepts. */
const route = <Fields>(answer: RouteAnswer<Fields>) => answer as RouteAnswer<unknown>;

const routeAnswers = (
  serviceId: string,
  { outboxStats, inboxStats, list, get, retry }: Reads,
): Readonly<Record<DiagnosticPath, RouteAnswer<unknown>>> => ({
  health: route({
    withoutToken: { ok: { status: "ok" } }, // a load balancer learns that the process responds
    request: noFields,
    async run(_, call) {
      const [outbox, inbox] = await Promise.all([
        reach(() => outboxStats(call)),
        reach(() => inboxStats(call)),
      ]);
      const isWell = outbox.reachable && inbox.reachable;
      const ok = {
        status: isWell ? "ok" : "failing",
        version: packageVersion,
        service: serviceId,
        outbox,
        inbox,
      };
      return { ok, status: isWell ? 200 : 503 };
    },
  }),
  "outbox/stats": route({ request: noFields, run: async (_, call) => ({ ok: await outboxStats(call) }) }),
  "outbox/failed": route({
    request: failedFields,
    run: async ({ state = "Failed", ...page }, call) => ({ ok: await list({ ...page, state, ...call }) }),
  }),
  "outbox/{messageId}/retry": route({
    request: z.strictObject({ messageId: guid }),
    async run({ messageId }, call) {
      const isRetried = await retry(messageId, call);
      const message = await get(messageId, call);
      if (message === null) return { notFound: "The outbox has no such message." };
      return isRetried
        ? { ok: message, details: { messageId } }
        : { conflict: `The message has not failed: its state is ${message.state}.` };
    },
  }),
  "inbox/stats": route({ request: noFields, run: async (_, call) => ({ ok: await inboxStats(call) }) }),
});

/** What a table says of itself, or why it cannot be read. */
async function reach<Stats extends OutboxStats | InboxStats>(
  read: () => Promise<Stats>,
): Promise<(Stats & { readonly reachable: true }) | { readonly reachable: false; readonly reason: string }> {
  try {
    return { reachable: true, ...(await read()) };
  } catch (error) {
    return { reachable: false, reason: safeReason(error) };
  }
}
