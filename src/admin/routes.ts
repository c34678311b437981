import * as z from "zod/mini";
import { packageVersion } from "../base/require-package.js";
import type { Answer } from "../http/admin-responses.js";
import { guid, queryCursor, queryLimit } from "../http/field-schemas.js";
import { bulkActions, type ControlTarget } from "../queue/operators.js";
import { type AnyQueue, type QueueKind, queueKinds } from "../queue/work-store.js";
import type { AdminOptions } from "./create-admin.js";
import {
  activityBuckets,
  activitySince,
  batchSize,
  bodyConditions,
  flag,
  headers,
  key,
  keyAnd,
  keys,
  name,
  payload,
  queryConditions,
  sourceIn,
  state,
} from "./field-schemas.js";
import { listPhased, messageView, type PhasedFilter, phasedTrace, withPhases } from "./phases.js";
import { storeReport, tenantReports } from "./reports.js";
import { type AdminCall, type AdminRoute, appRoute, storeRoute } from "./routing.js";

/** All routes except those of the page. */
export const adminRoutes = (options: AdminOptions): readonly AdminRoute[] => [
  ...appRoutes(options),
  ...queueKinds.flatMap((queue) => {
    const get = onQueue(queue, "GET");
    const post = onQueue(queue, "POST");
    return [
      ...messageRoutes(queue, get),
      ...deadRoutes(queue, get, post),
      ...operationRoutes(queue, get, post),
      ...controlRoutes(queue, get, post),
    ];
  }),
  correlationRoute,
  retryRoute,
];

/** Tenants on a page, and tenants whose databases `health` reads. */
const maxTenants = 100;
const noFields = z.strictObject({});

/** On the app as a whole. */
const appRoutes = ({ stores, tenants }: AdminOptions): readonly AdminRoute[] => [
  appRoute({
    path: "health",
    method: "GET",
    withoutToken: { ok: { status: "ok" } }, // a load balancer learns that the process responds
    request: noFields,
    async run(_, { signal }) {
      const reports =
        tenants === undefined
          ? [await storeReport(async () => stores!, { signal })]
          : (await tenantReports(tenants, { limit: maxTenants, signal })).tenants.map(
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
    async run({ limit = maxTenants, after }, { signal }) {
      if (tenants === undefined) return { ok: { tenants: [], cursor: null } };
      const page = await tenantReports(tenants, { limit, after, signal });
      const shown = page.tenants.map(({ tenant, state, report }) => ({ tenant, state, ...report }));
      return { ok: { tenants: shown, cursor: page.cursor } };
    },
  }),
];

type QueueRoute = ReturnType<typeof onQueue>;

/** Makes routes whose `run` gets the queue itself. */
const onQueue =
  (queue: QueueKind, method: "GET" | "POST") =>
  <Fields>(
    path: string,
    request: z.ZodMiniType<Fields>,
    run: (store: AnyQueue, fields: Fields, call: AdminCall) => Promise<Answer>,
  ): AdminRoute =>
    storeRoute<Fields>({
      path: `${queue}/${path}`,
      method,
      request,
      run: (stores, fields, call) => run(stores[queue], fields, call),
    });

/** What can be read of the messages of a queue, dead or not. */
function messageRoutes(queue: QueueKind, get: QueueRoute): readonly AdminRoute[] {
  const page = { ...queryConditions(queue), limit: queryLimit, after: queryCursor };
  const list = async (store: AnyQueue, filter: PhasedFilter) => {
    const { messages, cursor } = await listPhased(store, queue, filter);
    return { ok: { messages: messages.map((message) => messageView(message)), cursor } };
  };
  const activity = z.strictObject({ sinceMs: activitySince, buckets: activityBuckets });
  const limited = z.strictObject({ limit: queryLimit });
  const filtered = z.strictObject({ state: z.optional(state(queue)), ...page });
  return [
    get("stats", noFields, async (store, _, { signal }) => ({ ok: await store.stats({ signal }) })),
    get("activity", activity, async (store, options, { signal }) => ({
      ok: await store.activity({ ...options, signal }),
    })),
    get("partitions", limited, async (store, { limit }, { signal }) => ({
      ok: { partitions: await store.blockedPartitions({ limit, signal }) },
    })),
    get("unhandled", limited, async (store, { limit }, { signal }) => ({
      ok: { topics: await store.unhandled({ limit, signal }) },
    })),
    get("messages", filtered, (store, { state: given, ...filter }, { signal }) =>
      list(store, { ...filter, ...given, signal }),
    ),
    get("failed", z.strictObject(page), (store, filter, { signal }) =>
      list(store, { ...filter, phase: "dead", signal }),
    ),
    get("message", keyAnd(queue, { payload: flag }), async (store, fields, { signal }) => {
      const { payload = false, ...key } = fields;
      const message = await store.get(key, { signal });
      if (message === null) return { notFound: `The ${queue} has no such message.` };
      const attempts = await store.attempts(key, { signal });
      const [phased] = await withPhases(store, [message], { signal });
      const ok = { ...messageView(phased!, payload), attempts };
      // who has seen which payload
      return payload ? { ok, details: { payload: true, ...key } } : { ok };
    }),
  ];
}

/** What can be done with dead messages one by one, and what can be read of all of them. */
function deadRoutes(queue: QueueKind, get: QueueRoute, post: QueueRoute): readonly AdminRoute[] {
  const conditions = queryConditions(queue);
  const groups = z.strictObject({ ...conditions, limit: queryLimit });
  const someKeys = z.strictObject({ keys: keys(queue) });
  const edit = z.strictObject({ key: key(queue), changes });
  return [
    get("dead/groups", groups, async (store, filter, { signal }) => ({
      ok: { groups: await store.deadGroups({ ...filter, signal }) },
    })),
    get("dead/count", z.strictObject(conditions), async (store, filter, { signal }) => ({
      ok: { count: await store.countDead({ ...filter, signal }) },
    })),
    ...bulkActions.map((action) =>
      post(`dead/${action}`, someKeys, async (store, { keys: given }, call) => {
        const ok = await store[action](given, call);
        return { ok, details: { changed: ok.changed.length } };
      }),
    ),
    post("dead/edit", edit, async (store, { key: given, changes: edited }, call) => {
      const made = await store.editAndReplay(given, edited, call);
      return { ok: { key: made }, details: { changed: 1 } };
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

/**
 * Operations on all dead messages that match. A request does one batch: the caller continues until the operation has ended,
 * as fast as it wants to, and another caller can continue it. With `resume` the batch is the first after an interruption: the
 * caller is recorded.
 */
function operationRoutes(queue: QueueKind, get: QueueRoute, post: QueueRoute): readonly AdminRoute[] {
  const begin = z.strictObject({
    action: z.enum(bulkActions, `must be one of ${bulkActions.join(", ")}`),
    filter: z.strictObject(
      bodyConditions(queue),
      "must be an object of conditions; {} for all dead messages",
    ),
  });
  const batch = z.strictObject({ id: guid, batchSize, resume: onlyTrue });
  return [
    get("operations", z.strictObject({ limit: queryLimit }), async (store, { limit }, { signal }) => ({
      ok: { operations: await store.operations({ limit, signal }) },
    })),
    post("operations", begin, async (store, { action, filter }, call) => {
      const ok = await store.startOperation(action, filter, call);
      return { ok, details: { operationId: ok.id, action, matched: ok.matched } };
    }),
    post("operations/{id}/continue", batch, async (store, { id, resume, ...size }, { by, signal }) => {
      const resumedBy = resume ? by : undefined;
      const ok = await store.continueOperation(id, { ...size, resumedBy, signal });
      return { ok, details: { operationId: ok.id, action: ok.action, done: ok.done } };
    }),
  ];
}

const onlyTrue = z.optional(z.literal(true, "must be true"));

/** Pauses and limits of a queue. */
function controlRoutes(queue: QueueKind, get: QueueRoute, post: QueueRoute): readonly AdminRoute[] {
  const fields = { all: onlyTrue, topic: z.optional(name), source: sourceIn(queue) };
  const orSource = queue === "inbox" ? ", or source" : "";
  const one = z.refine<Target>(hasOne, {
    error: `must be given${orSource}, or all: true; and only one of them`,
    path: ["topic"],
  });
  const target = z.strictObject(fields).check(one);
  const limit = z.strictObject({ ...fields, perSecond }).check(one);
  return [
    get("controls", noFields, async (store, _, { signal }) => ({
      ok: { controls: await store.controls({ signal }) },
    })),
    post("pause", target, async (store, given, call) => ({
      ok: { control: await store.pause(targetOf(given), call) },
    })),
    post("resume", target, async (store, given, call) => ({ ok: await store.resume(targetOf(given), call) })),
    post("limit", limit, async (store, { perSecond: rate, all: _, ...given }, call) => {
      const control = await store.limit({ ...given, perSecond: rate }, call);
      return { ok: { control }, details: { perSecond: rate } };
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

const targetOf = ({ topic, source }: Target): ControlTarget =>
  topic !== undefined ? { topic } : source !== undefined ? { source } : "all";

/** As the store takes it: one message in a day is the least. */
const least = 1 / 86_400;
const most = 1_000_000;
const rateRule = `must be a number from 1/86400 to ${most}, or null for no limit`;
const perSecond = z.nullable(z.number(rateRule).check(z.gte(least, rateRule), z.lte(most, rateRule)));

/** The trace of one event, from the webhook to the published message. */
const correlationRoute: AdminRoute = storeRoute({
  path: "correlation/{id}",
  method: "GET",
  request: z.strictObject({ id: name }),
  run: async (stores, { id }, { signal }) => ({ ok: { steps: await phasedTrace(stores, id, { signal }) } }),
});

/** Replays one failed message. */
const retryRoute: AdminRoute = storeRoute({
  path: "outbox/{id}/retry",
  method: "POST",
  request: z.strictObject({ id: guid }),
  async run({ outbox }, key, call) {
    const { changed } = await outbox.replay([key], call);
    if (changed.length === 1) return { ok: { changed }, details: { id: key.id } };
    const message = await outbox.get(key, { signal: call.signal });
    return message === null
      ? { notFound: "The outbox has no such message." }
      : { conflict: `The message has not failed: its state is ${message.state}.` };
  },
});
