import * as z from "zod/mini";
import { packageVersion } from "../base/require-package.js";
import type { OperatedStores } from "../operators/operators-of.js";
import { bulkActions, type ControlTarget } from "../queue/operators.js";
import { type QueueKind, queueKinds, queueOf } from "../queue/work-store.js";
import type { AdminOptions, AdminStores, AdminTenants } from "./create-admin.js";
import {
  activityBuckets,
  activitySince,
  batchSize,
  bodyConditions,
  flag,
  guid,
  headers,
  key,
  keyAnd,
  keys,
  name,
  payload,
  queryConditions,
  queryCursor,
  queryLimit,
  sourceIn,
  state,
} from "./field-schemas.js";
import { listPhased, messageView, type PhasedFilter, phasedTrace, withPhases } from "./phases.js";
import { storeReport, tenantReports } from "./reports.js";
import { type AdminRoute, appRoute, storeRoute } from "./routing.js";

interface AppParts {
  readonly stores?: AdminStores | undefined;
  readonly tenants?: AdminTenants | undefined;
}

/** Tenants on a page, and of those whose databases `health` looks at. */
const mostTenants = 100;

/** On the app as a whole. */
function appRoutes({ stores, tenants }: AppParts): readonly AdminRoute[] {
  return [
    appRoute({
      path: "health",
      method: "GET",
      withoutToken: { ok: { status: "ok" } }, // a load balancer learns that the process answers
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

/** Replays one failed message, by the name that the document on messages between services has for it. */
const retryRoute: AdminRoute = storeRoute({
  path: "outbox/{id}/retry",
  method: "POST",
  request: z.strictObject({ id: guid }),
  async run({ outbox }, key, { by, signal }) {
    const { changed } = await outbox.replay([key], { by, signal });
    if (changed.length === 1) return { ok: { changed }, details: { id: key.id } };
    const message = await outbox.get(key, { signal });
    return message === null
      ? { notFound: "The outbox has no such message." }
      : { conflict: `The message has not failed: its state is ${message.state}.` };
  },
});

/** The trace of one event, from the webhook to the published message. */
const correlationRoute: AdminRoute = storeRoute({
  path: "correlation/{id}",
  method: "GET",
  request: z.strictObject({ id: name }),
  run: async (stores, { id }, { signal }) => ({ ok: { steps: await phasedTrace(stores, id, { signal }) } }),
});

/** What can be done with dead messages one by one, and what can be read of all of them. */
function deadRoutes(queue: QueueKind): readonly AdminRoute[] {
  const conditions = queryConditions(queue);
  const someKeys = z.strictObject({ keys: keys(queue) });
  return [
    storeRoute({
      path: `${queue}/dead/groups`,
      method: "GET",
      request: z.strictObject({ ...conditions, limit: queryLimit }),
      run: async (stores, filter, { signal }) => ({
        ok: { groups: await queueOf(stores, queue).deadGroups({ ...filter, signal }) },
      }),
    }),
    storeRoute({
      path: `${queue}/dead/count`,
      method: "GET",
      request: z.strictObject(conditions),
      run: async (stores, filter, { signal }) => ({
        ok: { count: await queueOf(stores, queue).countDead({ ...filter, signal }) },
      }),
    }),
    ...bulkActions.map((action) =>
      storeRoute({
        path: `${queue}/dead/${action}`,
        method: "POST",
        request: someKeys,
        async run(stores, { keys: given }, { by, signal }) {
          const ok = await queueOf(stores, queue)[action](given, { by, signal });
          return { ok, details: { changed: ok.changed.length } };
        },
      }),
    ),
    storeRoute({
      path: `${queue}/dead/edit`,
      method: "POST",
      request: z.strictObject({ key: key(queue), changes }),
      async run(stores, fields, { by, signal }) {
        const made = await queueOf(stores, queue).editAndReplay(fields.key, fields.changes, {
          by,
          signal,
        });
        return { ok: { key: made }, details: { changed: 1 } };
      },
    }),
  ];
}

const changesRule = "must have topic, payload or headers";
const changes = z
  .strictObject(
    { topic: z.optional(name), payload: z.optional(payload), headers: z.optional(headers) },
    changesRule,
  )
  .check(z.refine((given) => Object.keys(given).length > 0, changesRule));

const actionRule = `must be one of ${bulkActions.join(", ")}`;
const filterRule = "must be an object of conditions; {} for all dead messages";

/**
 * Operations on all dead messages that match. A request does one batch: the caller continues until the operation has ended,
 * as fast as it wants to, and another caller can go on with it. With `resume` the batch is the first after an interruption: who
 * asks is recorded.
 */
function operationRoutes(queue: QueueKind): readonly AdminRoute[] {
  const path = `${queue}/operations`;
  return [
    storeRoute({
      path,
      method: "GET",
      request: z.strictObject({ limit: queryLimit }),
      run: async (stores, { limit }, { signal }) => ({
        ok: { operations: await queueOf(stores, queue).operations({ limit, signal }) },
      }),
    }),
    storeRoute({
      path,
      method: "POST",
      request: z.strictObject({
        action: z.enum(bulkActions, actionRule),
        filter: z.strictObject(bodyConditions(queue), filterRule),
      }),
      async run(stores, { action, filter }, { by, signal }) {
        const ok = await queueOf(stores, queue).startOperation(action, filter, { by, signal });
        return { ok, details: { operationId: ok.id, action, matched: ok.matched } };
      },
    }),
    storeRoute({
      path: `${path}/{id}/continue`,
      method: "POST",
      request: z.strictObject({ id: guid, batchSize, resume: z.optional(z.literal(true, "must be true")) }),
      async run(stores, { id, batchSize: size, resume }, { by, signal }) {
        const resumedBy = resume ? by : undefined;
        const ok = await queueOf(stores, queue).continueOperation(id, { batchSize: size, resumedBy, signal });
        return { ok, details: { operationId: ok.id, action: ok.action, done: ok.done } };
      },
    }),
  ];
}

/** Pauses and limits of a queue. */
function controlRoutes(queue: QueueKind): readonly AdminRoute[] {
  const target = {
    all: z.optional(z.literal(true, "must be true")),
    topic: z.optional(name),
    source: sourceIn(queue),
  };
  const one = z.refine<Target>(hasOne, { error: targetRule(queue), path: ["topic"] });
  return [
    storeRoute({
      path: `${queue}/controls`,
      method: "GET",
      request: z.strictObject({}),
      run: async (stores, _, { signal }) => ({
        ok: { controls: await queueOf(stores, queue).controls({ signal }) },
      }),
    }),
    storeRoute({
      path: `${queue}/pause`,
      method: "POST",
      request: z.strictObject(target).check(one),
      run: async (stores, given, call) => ({
        ok: { control: await queueOf(stores, queue).pause(targetOf(given), call) },
      }),
    }),
    storeRoute({
      path: `${queue}/resume`,
      method: "POST",
      request: z.strictObject(target).check(one),
      async run(stores, given, call) {
        const ok = await queueOf(stores, queue).resume(targetOf(given), call);
        return { ok, details: { returned: ok.returned } };
      },
    }),
    storeRoute({
      path: `${queue}/limit`,
      method: "POST",
      request: z.strictObject({ ...target, perSecond }).check(one),
      async run(stores, { perSecond: rate, all: _, ...given }, call) {
        const control = await queueOf(stores, queue).limit({ ...given, perSecond: rate }, call);
        return { ok: { control }, details: { perSecond: rate } };
      },
    }),
  ];
}

interface Target {
  readonly all?: true | undefined;
  readonly topic?: string | undefined;
  readonly source?: string | undefined;
}

const hasOne = ({ all, topic, source }: Target): boolean =>
  [all, topic, source].filter((one) => one !== undefined).length === 1;

const targetRule = (queue: QueueKind): string =>
  queue === "inbox"
    ? "must be given, or source, or all: true; and only one of them"
    : "must be given, or all: true; and only one of them";

const targetOf = ({ topic, source }: Target): ControlTarget =>
  topic !== undefined ? { topic } : source !== undefined ? { source } : "all";

/** As the store takes it: one message in a day is the least. */
const least = 1 / 86_400;
const most = 1_000_000;
const rateRule = `must be a number from 1/86400 to ${most}, or null for no limit`;
const perSecond = z.nullable(z.number(rateRule).check(z.gte(least, rateRule), z.lte(most, rateRule)));

/** All routes but those of the page. */
export const adminRoutes = (options: AdminOptions): readonly AdminRoute[] => [
  ...appRoutes(options),
  ...queueKinds.flatMap((queue) => [
    ...messageRoutes(queue),
    ...deadRoutes(queue),
    ...operationRoutes(queue),
    ...controlRoutes(queue),
  ]),
  correlationRoute,
  retryRoute,
];

/** What can be read of the messages of a queue, dead or not. */
function messageRoutes(queue: QueueKind): readonly AdminRoute[] {
  const page = { ...queryConditions(queue), limit: queryLimit, after: queryCursor };
  const list = async (stores: OperatedStores, filter: PhasedFilter) => {
    const { messages, cursor } = await listPhased(queueOf(stores, queue), queue, filter);
    return { ok: { messages: messages.map((message) => messageView(message)), cursor } };
  };
  return [
    storeRoute({
      path: `${queue}/stats`,
      method: "GET",
      request: z.strictObject({}),
      run: async (stores, _, { signal }) => ({ ok: await queueOf(stores, queue).stats({ signal }) }),
    }),
    storeRoute({
      path: `${queue}/activity`,
      method: "GET",
      request: z.strictObject({ sinceMs: activitySince, buckets: activityBuckets }),
      run: async (stores, options, { signal }) => ({
        ok: await queueOf(stores, queue).activity({ ...options, signal }),
      }),
    }),
    storeRoute({
      path: `${queue}/partitions`,
      method: "GET",
      request: z.strictObject({ limit: queryLimit }),
      run: async (stores, { limit }, { signal }) => ({
        ok: { partitions: await queueOf(stores, queue).blockedPartitions({ limit, signal }) },
      }),
    }),
    storeRoute({
      path: `${queue}/messages`,
      method: "GET",
      request: z.strictObject({ state: z.optional(state(queue)), ...page }),
      run: (stores, { state: given, ...filter }, { signal }) => list(stores, { ...filter, ...given, signal }),
    }),
    storeRoute({
      path: `${queue}/failed`,
      method: "GET",
      request: z.strictObject(page),
      run: (stores, filter, { signal }) => list(stores, { ...filter, phase: "dead", signal }),
    }),
    storeRoute({
      path: `${queue}/message`,
      method: "GET",
      request: keyAnd(queue, { payload: flag }),
      async run(stores, { payload = false, ...key }, { signal }) {
        const store = queueOf(stores, queue);
        const message = await store.get(key, { signal });
        if (message === null) return { notFound: `The ${queue} has no such message.` };
        const attempts = await store.attempts(key, { signal });
        const [phased] = await withPhases(store, [message], { signal });
        const ok = { ...messageView(phased!, payload), attempts };
        // who has seen which payload
        return payload ? { ok, details: { payload: true, ...key } } : { ok };
      },
    }),
  ];
}
