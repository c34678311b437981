import { randomUUID } from "node:crypto";
import { omitUndefined } from "../../base/defined.js";
import { InvalidArgumentError } from "../../errors.js";
import { refuseUnknown, requireDuration } from "../../queue/arguments.js";
import { LeaseLostError } from "../../queue/leases.js";
import {
  checkAll,
  checkedInboxStore,
  defaultLeaseMs,
  InboxKeyBusyError,
  type KeyCalls,
  type KeyReport,
  type LeasingInboxStore,
  type TryBeginResult,
} from "../inbox-store.js";
import { callService, type Fields, InboxServiceError, type ServiceRequest } from "./inbox-service-call.js";

/** Options of an inbox store that calls the inbox service. */
export interface HttpInboxStoreOptions {
  /** Where the service is; `v1/inbox/…` is added to it. Use https: the token is sent with every request. */
  readonly url: string;
  /** The bearer token, where the service wants one. */
  readonly token?: string | undefined;
  /** The longest time of one call with all its attempts: 20 s by default. */
  readonly timeoutMs?: number | undefined;
  /** The longest time of one attempt: 5 s by default. */
  readonly attemptMs?: number | undefined;
  /**
   * `false` for a service that refuses a `leaseId` in a try-begin. When the answer to one is lost there, the key is Busy
   * until the lease ends. True by default.
   */
  readonly proposeLeaseId?: boolean | undefined;
}

const defaults = { timeoutMs: 20_000, attemptMs: 5_000, proposeLeaseId: true } as const;
const known = ["url", "token", "timeoutMs", "attemptMs", "proposeLeaseId"];

/**
 * An inbox store behind the HTTP service. Calls that fail in passing are repeated, which is safe.
 *
 * @example
 * const store = createHttpInboxStore({ url: "https://inbox.example.com", token });
 */
export function createHttpInboxStore(options: HttpInboxStoreOptions): LeasingInboxStore {
  const { url, token, timeoutMs, attemptMs, proposeLeaseId } = checked(options);
  const base = baseOf(url)!;
  type Signal = AbortSignal | undefined;

  const send = (request: ServiceRequest, signal: Signal): Promise<Fields> =>
    callService({ base, token, attemptMs, endsAt: performance.now() + timeoutMs }, request, signal);
  const post = (name: string, body: Fields, signal: Signal): Promise<Fields> =>
    send({ path: `v1/inbox/${name}`, body }, signal);
  /** A lease id that the service cannot have made holds nothing. */
  const postHeld = (name: string, body: Fields, signal: Signal): Promise<Fields> =>
    post(name, body, signal).catch((error: unknown) => {
      if (error instanceof InboxServiceError && error.field === "leaseId") return { status: "LeaseLost" };
      throw error;
    });

  const calls: KeyCalls = {
    async isProcessed(key, signal) {
      return (await calls.inspect(key, signal)).status === "Processed";
    },
    async markProcessed(key, signal) {
      try {
        statusOf(await post("mark", { key }, signal), ["Processed"]);
      } catch (error) {
        if (!isUnknownPath(error)) throw error;
        await markByLease(calls, key, signal); // a service that has only the paths of the common contract
      }
    },
    async tryBegin(key, { leaseId, leaseMs, owner }, signal) {
      const proposed = proposeLeaseId ? leaseId : undefined;
      const fields = omitUndefined({ key, owner: owner ?? undefined, leaseId: proposed });
      return begun(await post("try-begin", { ...fields, leaseSeconds: seconds(leaseMs) }, signal));
    },
    async renew(key, leaseId, leaseMs, signal) {
      const fields = await postHeld("renew", { key, leaseId, leaseSeconds: seconds(leaseMs) }, signal);
      const status = statusOf(fields, ["Renewed", "LeaseLost"]);
      return status === "LeaseLost" ? { status } : { status, expiresAt: timeOf(fields, "expiresAt") };
    },
    async finish(key, leaseId, signal) {
      const fields = await postHeld("mark-processed", { key, leaseId }, signal);
      return { status: statusOf(fields, ["Processed", "LeaseLost"]) };
    },
    async release(key, leaseId, signal) {
      const fields = await postHeld("release", { key, leaseId }, signal);
      return { status: statusOf(fields, ["Released", "LeaseLost"]) };
    },
    async inspect(key, signal) {
      // A URL has no path "." or "..": they mean folders, however they are encoded.
      const isFolder = key === "." || key === "..";
      const asked = isFolder
        ? post("inspect", { key }, signal)
        : send({ path: `v1/inbox/${encodeURIComponent(key)}` }, signal);
      return reportOf(await asked);
    },
    async close() {},
  };
  // Only the service knows what its lease ids look like.
  return checkedInboxStore(calls, { timeoutMs, leaseIdOf: (leaseId) => leaseId });
}

const seconds = (ms: number): number => Math.ceil(ms / 1_000);

const isUnknownPath = (error: unknown): boolean =>
  error instanceof InboxServiceError && (error.status === 404 || error.status === 405);

/** The common contract has no call that marks a key without a lease, so this takes the lease first. */
async function markByLease(calls: KeyCalls, key: string, signal: AbortSignal | undefined): Promise<void> {
  const wanted = { leaseId: randomUUID(), leaseMs: defaultLeaseMs, owner: null };
  const begun = await calls.tryBegin(key, wanted, signal);
  if (begun.status === "Busy") throw new InboxKeyBusyError(key, begun.expiresAt);
  if (begun.status === "Processed") return;
  const { status } = await calls.finish(key, begun.leaseId, signal);
  if (status === "LeaseLost") throw new LeaseLostError();
}

/** With a slash at its end, so that paths are added to it. */
function baseOf(url: string): URL | undefined {
  if (!URL.canParse(url)) return undefined;
  const base = new URL(url);
  if (!/^https?:$/.test(base.protocol) || base.username !== "" || base.search !== "") return undefined;
  base.pathname = base.pathname.replace(/\/*$/, "/");
  return base;
}

function checked(options: HttpInboxStoreOptions) {
  const what = "createHttpInboxStore";
  refuseUnknown(options, known, what);
  const filled = { ...defaults, ...omitUndefined(options) };
  const { url, token } = options;
  checkAll(what, [
    () => {
      if (typeof url !== "string" || baseOf(url) === undefined)
        throw new InvalidArgumentError("url must be an http or https URL, without user, password and query");
    },
    () => {
      if (token !== undefined && (typeof token !== "string" || !/^[\x21-\x7e]+$/.test(token)))
        throw new InvalidArgumentError("token must be a text of printable ASCII characters without spaces");
    },
    () => requireDuration(filled.timeoutMs, "timeoutMs"),
    () => requireDuration(filled.attemptMs, "attemptMs"),
  ]);
  return { ...filled, token };
}

/* Answers of the service as results of a store. Fields that the contract does not name are ignored. */

function begun(fields: Fields): TryBeginResult {
  const status = statusOf(fields, ["Acquired", "Processed", "Busy"]);
  if (status === "Processed") return { status };
  if (status === "Busy") return { status, expiresAt: optionalTime(fields, "expiresAt") };
  return { status, leaseId: textOf(fields, "leaseId"), expiresAt: timeOf(fields, "expiresAt") };
}

function reportOf(fields: Fields): KeyReport {
  const status = statusOf(fields, ["Unknown", "Processed", "Leased", "Free"]);
  if (status === "Unknown") return { status };
  const { attempts, owner } = fields;
  return {
    status,
    attempts: typeof attempts === "number" ? attempts : 0,
    firstSeenAt: timeOf(fields, "firstSeen"),
    lastSeenAt: timeOf(fields, "lastSeen"),
    leaseUntil: optionalTime(fields, "leaseUntil"),
    owner: typeof owner === "string" ? owner : null,
  };
}

/** Only the statuses of the call are right: one that is not known must not pass for a success. */
function statusOf<Status extends string>({ status }: Fields, known: readonly Status[]): Status {
  const found = known.find((one) => one === status);
  if (found === undefined) throw unexpected("status");
  return found;
}

function textOf(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value !== "string" || value === "") throw unexpected(name);
  return value;
}

function timeOf(fields: Fields, name: string): Date {
  const time = new Date(textOf(fields, name));
  if (Number.isNaN(time.getTime())) throw unexpected(name);
  return time;
}

const optionalTime = (fields: Fields, name: string): Date | null =>
  fields[name] === undefined || fields[name] === null ? null : timeOf(fields, name);

const unexpected = (name: string): InboxServiceError =>
  new InboxServiceError(
    `The inbox service answered 200 with a field "${name}" that the contract does not allow. Check the URL and the service's version.`,
    { status: 200, isTransient: false },
  );
