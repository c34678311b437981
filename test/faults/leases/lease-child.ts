/**
 * A process with some clients of one store. It may be killed or stopped at any moment. What its clients do goes to a file of its
 * own first. It sends its parent a message after some keys.
 */

import { databaseOpeners } from "../../../src/config/database-openers.js";
import { openByUrl } from "../../../src/config/database-url.js";
import type { LeasingInboxStore } from "../../../src/inbox-store/inbox-store.js";
import { type InboxStoreSettings, openInboxStore } from "../../../src/inbox-store/open-inbox-store.js";
import { historyOf, readRecords, recordsInto } from "../../support/leases/history-records.js";
import { leaseKeys, runLeaseClients } from "../../support/leases/lease-clients.js";
import { statusOf } from "../../support/leases/recorded-call.js";
import { recordedStore } from "../../support/leases/recorded-store.js";

export interface LeaseChildOptions {
  /** In JSON. */
  readonly settings: InboxStoreSettings;
  readonly records: string;
  readonly clients: number;
  readonly keys: number;
  /** The records of the killed process that this one follows. It goes on with the keys that were not seen processed. */
  readonly predecessor: string | undefined;
  readonly leaseMs: number;
  readonly seed: string;
}

/** Keys between two messages to the parent. */
const visitsPerMessage = 50;

const { settings, records, keys, predecessor, ...plan } = JSON.parse(process.argv[2]!) as LeaseChildOptions;
const store = recordedStore(await open(settings), recordsInto(records));
const before = predecessor === undefined ? [] : historyOf([readRecords(predecessor)]).calls;
const processed = new Set(before.filter((one) => statusOf(one) === "Processed").map(({ key }) => key));
let visits = 0;
await runLeaseClients({
  ...plan,
  keys: leaseKeys(keys).filter((key) => !processed.has(key)),
  store,
  onVisit() {
    if (++visits % visitsPerMessage === 0) process.send!("visited");
  },
});
await store.close();
process.disconnect();

/** A connection for each client: with fewer, their calls would wait for each other here and not in the database. */
async function open(given: InboxStoreSettings): Promise<LeasingInboxStore> {
  if (given.kind !== "sql") return openInboxStore(given);
  const { url, ...rest } = given;
  const db = await openByUrl(databaseOpeners, url!, { maxConnections: plan.clients });
  return { ...(await openInboxStore({ ...rest, db })), close: () => db.close() };
}
