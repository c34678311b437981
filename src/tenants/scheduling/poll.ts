import { abortAfter } from "../../base/abort-after.js";
import { InvalidOperationError, SchemaMissingError } from "../../errors.js";
import type { Database } from "../../sql/dialect.js";
import type { TenantStores } from "../connections/tenant-stores.js";

/** The longest time of a poll, by default. */
export const defaultPollTimeoutMs = 2_000;

/** The queues in which a claim could find a message. */
export interface Due {
  readonly inbox: boolean;
  readonly outbox: boolean;
}

export interface PolledStores extends Pick<TenantStores, "pollStatement"> {
  readonly db: Pick<Database, "dialect" | "driver" | "id">;
}

/** The database did not respond to the poll in time. */
export class PollTimeoutError extends InvalidOperationError {
  override readonly name = "PollTimeoutError";
}

/**
 * Polls both queues of a tenant in one round trip, which is all that an idle tenant costs. A dialect without such a
 * statement reports both queues as due, so that the dispatcher claims from them.
 */
export async function poll(stores: PolledStores, withinMs: number): Promise<Due> {
  const { dialect, driver } = stores.db;
  const statement = stores.pollStatement;
  if (statement === undefined) return { inbox: true, outbox: true };
  try {
    const rows = await abortAfter(
      withinMs,
      (signal) => driver.query(statement, {}, { signal }),
      () => pollTimeout(withinMs),
    );
    const queues = rows.map(({ queue }) => queue);
    return { inbox: queues.includes("inbox"), outbox: queues.includes("outbox") };
  } catch (error) {
    throw dialect.isSchemaMissing(error) ? schemaMissing(stores, error) : error;
  }
}

const pollTimeout = (ms: number) =>
  new PollTimeoutError(`The database did not respond to a poll within ${Math.round(ms)} ms (pollTimeoutMs).`);

const schemaMissing = ({ db }: PolledStores, cause: unknown) =>
  new SchemaMissingError(
    `The inbox or the outbox is not in ${db.id}, or is older than this version of oncebox. Migrate it when you deploy.`,
    { cause },
  );
