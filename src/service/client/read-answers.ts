import type { FinishResult, KeyReport, ReleaseResult, RenewResult, TryBeginResult } from "../inbox-store.js";
import { InboxServiceError } from "./inbox-service-error.js";
import type { Fields } from "./send-request.js";

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
