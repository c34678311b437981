import * as z from "zod/mini";
import { omitUndefined } from "../../base/defined.js";
import type { CallOptions } from "../../queue/work-store.js";
import {
  type KeyReport,
  keyProblem,
  type LeasingInboxStore,
  longestKey,
  longestOwner,
} from "../inbox-store.js";

export const maxBodyBytes = 16 * 1024;

/** What the service does at one path. The schemas validate requests, and the OpenAPI document is made of them. */
export interface ServiceCall<Fields = unknown> {
  readonly summary: string;
  readonly request: z.ZodMiniType<Fields>;
  readonly answer: z.ZodMiniType;
  run(store: LeasingInboxStore, fields: Fields, options: CallOptions): Promise<{ readonly status: string }>;
}

export type CallName = keyof ReturnType<typeof callsOf>;
export type ServiceCalls = Readonly<Record<CallName, ServiceCall>>;

/** The calls by the last part of their paths. */
export function callsOf(bounds: LeaseBounds) {
  const seconds = z.optional(leaseSeconds(bounds));
  const leaseMs = (given: number | undefined) => (given ?? defaultLeaseSeconds(bounds)) * 1_000;
  return {
    "try-begin": call({
      summary: "Leases a key, unless it is processed or another caller holds it",
      request: z.strictObject({
        key,
        owner: z.optional(owner),
        leaseSeconds: seconds,
        leaseId: z.optional(wantedLeaseId),
      }),
      answer: z.discriminatedUnion("status", [
        z.object({ status: z.literal("Acquired"), leaseId, expiresAt: time("When the lease ends.") }),
        processed,
        z.object({
          status: z.literal("Busy"),
          expiresAt: z.optional(time("When the holder's lease ends, unless it is renewed.")),
        }),
      ]),
      async run(store, { key: wanted, leaseSeconds: asked, ...wishes }, options) {
        const result = await store.tryBegin(wanted, { ...options, ...wishes, leaseMs: leaseMs(asked) });
        if (result.status === "Processed") return result;
        if (result.status === "Acquired") return { ...result, expiresAt: result.expiresAt.toISOString() };
        return { status: result.status, ...omitUndefined({ expiresAt: result.expiresAt?.toISOString() }) };
      },
    }),
    "mark-processed": call({
      summary: "Marks a key processed, under its lease. May be repeated",
      request: held,
      answer: z.discriminatedUnion("status", [processed, leaseLost]),
      run: (store, fields, options) => store.finish(fields.key, fields.leaseId, options),
    }),
    release: call({
      summary: "Ends a lease, so that the key is available to the next caller",
      request: held,
      answer: z.discriminatedUnion("status", [z.object({ status: z.literal("Released") }), leaseLost]),
      run: (store, fields, options) => store.release(fields.key, fields.leaseId, options),
    }),
    renew: call({
      summary: "Extends a lease, counted from now",
      request: z.strictObject({ key, leaseId, leaseSeconds: seconds }),
      answer: z.discriminatedUnion("status", [
        z.object({ status: z.literal("Renewed"), expiresAt: time("When the lease ends.") }),
        leaseLost,
      ]),
      async run(store, fields, options) {
        const result = await store.renew(fields.key, fields.leaseId, leaseMs(fields.leaseSeconds), options);
        return result.status === "LeaseLost"
          ? result
          : { ...result, expiresAt: result.expiresAt.toISOString() };
      },
    }),
    mark: call({
      summary:
        "Marks a key processed, whether it is leased or not. Its holder loses the lease. May be repeated",
      request: z.strictObject({ key }),
      answer: processed,
      async run(store, fields, options) {
        await store.markProcessed(fields.key, options);
        return { status: "Processed" as const };
      },
    }),
    inspect: call({
      summary: "Reports on a key. Unlike a path, a body takes every key, and no access log has it",
      request: z.strictObject({ key }),
      answer: z.discriminatedUnion("status", [
        z.object({ status: z.literal("Unknown") }),
        z.object({
          status: z.enum(["Processed", "Leased", "Free"]),
          attempts: z.int().check(z.gte(0), z.describe("How often the key was acquired.")),
          firstSeen: time("When the key was first seen."),
          lastSeen: time("When a caller last asked to begin the key, or marked it without a lease."),
          leaseUntil: z.optional(time("When the lease ends, while the key is leased.")),
          owner: z.optional(z.string().check(z.describe("The last caller that acquired it, if it said so."))),
        }),
      ]),
      run: async (store, fields, options) => reportOf(await store.inspect(fields.key, options)),
    }),
  };
}

/** Checks that the call returns what its schema says. */
const call = <Fields, Answer extends z.ZodMiniType<{ readonly status: string }>>(
  made: Omit<ServiceCall<Fields>, "answer" | "run"> & {
    readonly answer: Answer;
    run(store: LeasingInboxStore, fields: Fields, options: CallOptions): Promise<z.output<Answer>>;
  },
): ServiceCall => made as ServiceCall;

function reportOf(report: KeyReport) {
  if (report.status === "Unknown") return report;
  const { status, attempts, firstSeenAt, lastSeenAt, leaseUntil, owner: last } = report;
  return {
    status,
    attempts,
    firstSeen: firstSeenAt.toISOString(),
    lastSeen: lastSeenAt.toISOString(),
    ...omitUndefined({ leaseUntil: leaseUntil?.toISOString(), owner: last ?? undefined }),
  };
}

/** What JSON Schema can say of `keyProblem`. Written without \p{Cc}, which not every reader of JSON Schema knows. */
const control = "\\u0000-\\u001f\\u007f-\\u009f";
const plainText = new RegExp(`^[^${control}]*[^${control} ]$`);

/** A text that every provider stores and compares in the same way. One sentence says all that it must be. */
function text(longest: number, description: string) {
  const rule = `must be a text of 1 to ${longest} characters, without control characters and without a space at its end`;
  return z.string(rule).check(
    z.maxLength(longest, rule),
    z.regex(plainText, rule),
    z.refine((value) => keyProblem(value) === undefined, rule),
    z.describe(description),
  );
}

export const key = text(
  longestKey,
  "Names what is processed once, for example `orders:billing:order.placed:42`. Its length is counted in UTF-16 code units.",
);

const owner = text(
  longestOwner,
  "Who asks, for operators to read. It gives no rights: only the lease id does.",
);

const leaseId = z
  .guid("must be the leaseId that try-begin returned")
  .check(z.describe("The lease, as try-begin returned it."));

const wantedLeaseId = z
  .guid("must be a UUID")
  .check(
    z.describe(
      "The id that the lease gets: a UUID made for this request only. The same request, sent again because its answer was lost, gets the same lease.",
    ),
  );

interface LeaseBounds {
  readonly minLeaseSeconds: number;
  readonly maxLeaseSeconds: number;
}

/** How long the lease of a request is that does not say it. */
const defaultLeaseSeconds = ({ minLeaseSeconds, maxLeaseSeconds }: LeaseBounds): number =>
  Math.min(Math.max(30, minLeaseSeconds), maxLeaseSeconds);

function leaseSeconds(bounds: LeaseBounds) {
  const { minLeaseSeconds: least, maxLeaseSeconds: most } = bounds;
  const rule = `must be a whole number from ${least} to ${most}`;
  return z
    .int(rule)
    .check(
      z.gte(least, rule),
      z.lte(most, rule),
      z.describe(`How long the lease is; ${defaultLeaseSeconds(bounds)} if it is absent.`),
    );
}

const time = (description: string) => z.iso.datetime().check(z.describe(description));

const leaseLost = z.object({
  status: z
    .literal("LeaseLost")
    .check(z.describe("The caller does not hold the key any more. Nothing was changed.")),
});
const processed = z.object({ status: z.literal("Processed") });
const held = z.strictObject({ key, leaseId });
