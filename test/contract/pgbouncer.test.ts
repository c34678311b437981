import { afterAll, describe, inject } from "vitest";
import { postgresHarness } from "../support/postgres-harness.js";
import { findServer, needs } from "../support/servers/find-server.js";
import { pgBouncer } from "../support/start-pgbouncer.js";
import type { StartedServer } from "../support/start-postgres.js";
import { queueContracts, serviceContracts } from "./all-contracts.js";

// Fewer sessions than a suite has connections, and as many as one of its tests has open transactions.
const recipe = pgBouncer(inject("postgresUrl"), { size: 12 });
const start = await findServer(recipe);

describe.skipIf(start === undefined)(`ADD-25 behind PgBouncer in transaction mode (${needs(recipe)})`, () => {
  let pooler: Promise<StartedServer> | undefined;
  const harness = {
    name: "PgBouncer",
    async open() {
      pooler ??= start!();
      return postgresHarness(`${(await pooler).url}?prepare=false`).open();
    },
  };
  afterAll(async () => (await pooler)?.stop());

  queueContracts(harness);
  serviceContracts(harness);
});
