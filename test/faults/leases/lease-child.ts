/**
 * A process with some clients of one store. It may be killed or stopped at any moment. What its clients do goes to a file of its
 * own first. It sends its parent a message after some keys.
 */

import { createSqlInboxStore } from "../../../src/service/sql-inbox-store.js";
import { openPostgres } from "../../../src/sql/postgres/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { historyOf, readRecords, recordsInto } from "../../support/leases/history-records.js";
import { leaseKeys, runLeaseClients } from "../../support/leases/lease-clients.js";
import { statusOf } from "../../support/leases/operation.js";
import { recordedStore } from "../../support/leases/recorded-store.js";

export interface LeaseChildOptions {
  /** A URL, or a file of SQLite. */
  readonly url: string;
  readonly schema: string | undefined;
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

const { url, schema, records, keys, predecessor, ...plan } = JSON.parse(
  process.argv[2]!,
) as LeaseChildOptions;
const db = url.startsWith("postgres:")
  ? openPostgres({ url, maxConnections: plan.clients })
  : openSqlite({ file: url });
const store = recordedStore(
  createSqlInboxStore(db, schema === undefined ? {} : { schema }),
  recordsInto(records),
);
const before = predecessor === undefined ? [] : historyOf([readRecords(predecessor)]).operations;
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
await db.close();
process.disconnect();
