/**
 * A process with some clients of one store. It may be killed or stopped at any moment. What its clients do goes to a file of its
 * own first. Every now and then it sends its parent the index of the key that it has come to.
 */

import { createSqlInboxStore } from "../../../src/service/sql-inbox-store.js";
import { openPostgres } from "../../../src/sql/postgres/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { recordsInto } from "../../support/leases/history-records.js";
import { leaseKeys, runLeaseClients } from "../../support/leases/lease-clients.js";
import { recordedStore } from "../../support/leases/recorded-store.js";

export interface LeaseChildOptions {
  /** A URL, or a file of SQLite. */
  readonly url: string;
  readonly schema: string | undefined;
  readonly records: string;
  readonly clients: number;
  readonly firstKey: number;
  readonly keys: number;
  readonly leaseMs: number;
  readonly seed: string;
}

/** Keys between two messages to the parent. */
const visitsPerMessage = 50;

const { url, schema, records, firstKey, keys, ...plan } = JSON.parse(process.argv[2]!) as LeaseChildOptions;
const db = url.startsWith("postgres:")
  ? openPostgres({ url, maxConnections: plan.clients })
  : openSqlite({ file: url });
const store = recordedStore(
  createSqlInboxStore(db, schema === undefined ? {} : { schema }),
  recordsInto(records),
);
let visits = 0;
await runLeaseClients({
  ...plan,
  keys: leaseKeys(keys).slice(firstKey),
  store,
  onVisit(index) {
    if (++visits % visitsPerMessage === 0) process.send!(firstKey + index);
  },
});
await store.close();
await db.close();
process.disconnect();
