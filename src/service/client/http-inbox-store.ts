import { randomUUID } from "node:crypto";
import { omitUndefined } from "../../base/defined.js";
import { InvalidArgumentError } from "../../errors.js";
import { refuseUnknown, requireDuration } from "../../queue/arguments.js";
import { LeaseLostError } from "../../queue/leases.js";
import {
  checkAll,
  checkedInboxStore,
  defaultLeaseMs,
  type FinishResult,
  InboxKeyBusyError,
  type KeyOperations,
  type KeyReport,
  type LeasingInboxStore,
  type ReleaseResult,
  type RenewResult,
  type TryBeginResult,
} from "../inbox-store.js";
import {
  type Fields,
  InboxServiceError,
  repeatCall,
  type ServiceRequest,
  sendRequest,
} from "./inbox-service-call.js";

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
  const sender = { base: baseOf(url)!, token };

  const send = (request: ServiceRequest, signal: AbortSignal): Promise<Fields> =>
    repeatCall((attempt) => sendRequest(sender, request, attempt), {
      attemptMs,
      endsAt: performance.now() + timeoutMs,
      signal,
    });
  const post = (name: string, body: Fields, signal: AbortSignal): Promise<Fields> =>
    send({ path: `v1/inbox/${name}`, body }, signal);
  /** A lease id that the service cannot have made holds nothing. */
  const postHeld = (name: string, body: Fields, signal: AbortSignal): Promise<Fields> =>
    post(name, body, signal).catch((error: unknown) => {
      if (error instanceof InboxServiceError && error.field === "leaseId") return { status: "LeaseLost" };
      throw error;
    });

  const operations: KeyOperations = {
    async isProcessed(key, signal) {
      return (await operations.inspect(key, signal)).status === "Processed";
    },
    async markProcessed(key, signal) {
      try {
        finishOf(await post("mark", { key }, signal));
      } catch (error) {
        if (!isUnknownPath(error)) throw error;
        await markByLease(operations, key, signal); // a service that has the document's paths only
      }
    },
    async tryBegin(key, { leaseId, leaseMs, owner }, signal) {
      const proposed = proposeLeaseId ? leaseId : undefined;
      const fields = omitUndefined({ key, owner: owner ?? undefined, leaseId: proposed });
      return readTryBegin(await post("try-begin", { ...fields, leaseSeconds: seconds(leaseMs) }, signal));
    },
    renew: async (key, leaseId, leaseMs, signal) =>
      renewOf(await postHeld("renew", { key, leaseId, leaseSeconds: seconds(leaseMs) }, signal)),
    finish: async (key, leaseId, signal) =>
      finishOf(await postHeld("mark-processed", { key, leaseId }, signal)),
    release: async (key, leaseId, signal) => releaseOf(await postHeld("release", { key, leaseId }, signal)),
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
  return checkedInboxStore(operations, timeoutMs, asItCame);
}

/** Only the service knows what its lease ids look like. */
const asItCame = (leaseId: string): string => leaseId;

const seconds = (ms: number): number => Math.ceil(ms / 1_000);

const isUnknownPath = (error: unknown): boolean =>
  error instanceof InboxServiceError && (error.status === 404 || error.status === 405);

/** The document has no call that marks a key without a lease, so this takes the lease first. */
async function markByLease(operations: KeyOperations, key: string, signal: AbortSignal): Promise<void> {
  const wanted = { leaseId: randomUUID(), leaseMs: defaultLeaseMs, owner: null };
  const begun = await operations.tryBegin(key, wanted, signal);
  if (begun.status === "Busy") throw new InboxKeyBusyError(key, begun.expiresAt);
  if (begun.status === "Processed") return;
  const { status } = await operations.finish(key, begun.leaseId, signal);
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
  checkAll(what, [
    () => requireUrl(options.url),
    () => requireToken(options.token),
    () => requireDuration(filled.timeoutMs, "timeoutMs"),
    () => requireDuration(filled.attemptMs, "attemptMs"),
  ]);
  return { ...filled, token: options.token };
}

function requireUrl(url: unknown): void {
  if (typeof url !== "string" || baseOf(url) === undefined)
    throw new InvalidArgumentError("url must be an http or https URL, without user, password and query");
}

function requireToken(token: unknown): void {
  if (token !== undefined && (typeof token !== "string" || !/^[\x21-\x7e]+$/.test(token)))
    throw new InvalidArgumentError("token must be a text of printable ASCII characters without spaces");
}

/* Answers of the service as results of a store. Fields that the contract does not name are ignored. */

export function readTryBegin(fields: Fields): TryBeginResult {
  switch (fields.status) {
    case "Acquired":
      return {
        status: "Acquired",
        leaseId: textOf(fields, "leaseId"),
        expiresAt: timeOf(fields, "expiresAt"),
      };
    case "Processed":
      return { status: "Processed" };
    case "Busy":
      return { status: "Busy", expiresAt: optionalTime(fields, "expiresAt") };
    default:
      throw unexpected("status");
  }
}

export const renewOf = (fields: Fields): RenewResult =>
  isLost(fields, "Renewed")
    ? { status: "LeaseLost" }
    : { status: "Renewed", expiresAt: timeOf(fields, "expiresAt") };

export const finishOf = (fields: Fields): FinishResult => ({
  status: isLost(fields, "Processed") ? "LeaseLost" : "Processed",
});

export const releaseOf = (fields: Fields): ReleaseResult => ({
  status: isLost(fields, "Released") ? "LeaseLost" : "Released",
});

export function reportOf(fields: Fields): KeyReport {
  const { status, attempts, owner } = fields;
  if (status === "Unknown") return { status };
  if (status !== "Processed" && status !== "Leased" && status !== "Free") throw unexpected("status");
  return {
    status,
    attempts: typeof attempts === "number" ? attempts : 0,
    firstSeenAt: timeOf(fields, "firstSeen"),
    lastSeenAt: timeOf(fields, "lastSeen"),
    leaseUntil: optionalTime(fields, "leaseUntil"),
    owner: typeof owner === "string" ? owner : null,
  };
}

/** Only the two statuses of the call are right: one that is not known must not pass for a success. */
function isLost({ status }: Fields, success: string): boolean {
  if (status !== success && status !== "LeaseLost") throw unexpected("status");
  return status === "LeaseLost";
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
    `The inbox service answered 200 with a field "${name}" that is not of the contract. Check the URL and the service's version.`,
    { status: 200, isTransient: false },
  );
