import * as z from "zod/mini";
import { type QueueKind, queueOf } from "../../queue/any-queue.js";
import type { ControlTarget } from "../../queue/controls.js";
import { type AdminRoute, storeRoute } from "../admin-route.js";
import { name, sourceIn } from "../field-schemas.js";

/** Pauses and limits of a queue. */
export function controlRoutes(queue: QueueKind): readonly AdminRoute[] {
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
