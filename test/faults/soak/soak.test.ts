import { writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, inject, it } from "vitest";
import { postgresHarness } from "../../support/postgres-harness.js";
import { startDelayingProxy } from "../../support/postgres-proxies.js";
import { sqliteHarness } from "../../support/sqlite-harness.js";
import { times } from "../../support/times.js";
import { checkSoak } from "./check-soak.js";
import { isSettlement, slowSettlements } from "./slow-settlements.js";
import { type SoakResult, soak } from "./soak.js";

const seconds = times(4);
const isLong = seconds > 60;
const shape = { ms: seconds * 1_000, leaseMs: 2_500, maxAttempts: isLong ? 12 : 6 };
const timeoutMs = seconds * 1_000 + 900_000;

describe("four worker processes under kills, stops past the lease and settlements slower than it", () => {
  it(
    "IBX-105 FUN-05 ADD-01 ADD-11 ADD-28 PostgreSQL: nothing is lost, handled again after its ack, out of order, or unknown to the model",
    async () => {
      const url = inject("postgresUrl");
      const database = await postgresHarness(url).open();
      const faults = { isOver: false };
      const slow = slowSettlements(shape.leaseMs, () => faults.isOver);
      const proxy = await startDelayingProxy(url, (text) => (isSettlement(text) ? slow.next() : undefined));
      try {
        verify("PostgreSQL", await soak({ ...shape, database, url: proxy.url, faults }));
      } finally {
        await proxy.close();
        await database.close();
      }
    },
    timeoutMs,
  );

  it(
    "IBX-105 FUN-05 ADD-01 ADD-11 ADD-28 SQLite file: nothing is lost, handled again after its ack, out of order, or unknown to the model",
    async () => {
      const database = await sqliteHarness("file").open();
      const url = database.db.id.slice("sqlite:".length);
      try {
        verify("SQLite", await soak({ ...shape, database, url, faults: { isOver: false } }));
      } finally {
        await database.close();
      }
    },
    timeoutMs,
  );
});

function verify(name: string, { run, faults }: SoakResult): void {
  const { violations, ...report } = checkSoak(run);
  console.log(`${name}: ${JSON.stringify({ messages: run.messages.length, ...faults, ...report })}`);
  if (Object.keys(violations).length > 0) {
    const file = join(tmpdir(), `oncebox-soak-${name}.json`);
    writeFileSync(file, JSON.stringify(run));
    console.log(`all records: ${file}`);
  }
  expect(violations).toEqual({});
  // otherwise the run showed nothing
  expect(Math.min(faults.kills, faults.stops, faults.poisoned, report.slowSettlements)).toBeGreaterThan(0);
}
