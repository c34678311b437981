import { createHttpInboxStore } from "../../src/service/client/http-inbox-store.js";
import { createSqlInboxStore } from "../../src/service/sql-inbox-store.js";
import { migrate } from "../../src/sql/migrate.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { startService, token } from "../support/inbox-service/start-service.js";
import { testClock } from "./harness.js";
import { leasingInboxStoreContract } from "./inbox-store-contract.js";

leasingInboxStoreContract({
  name: "the HTTP service, by its client",
  async open() {
    const db = openSqlite({ file: ":memory:" });
    await migrate(db);
    const clock = testClock();
    const service = await startService({ store: createSqlInboxStore(db, { clock }) });
    const another = createHttpInboxStore({ url: service.url, token });
    return {
      store: createHttpInboxStore({ url: service.url, token }),
      reopen: async () => another,
      clock,
      shortLeaseMs: 30_000,
      expireShortLeases: async () => clock.advance(30_000),
      async close() {
        await service.close();
        await db.close();
      },
    };
  },
});
