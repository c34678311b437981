import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { InvalidOperationError, migrate } from "../../src/index.js";
import type { Database } from "../../src/sql/dialect.js";
import type { SqlRow } from "../../src/sql/driver.js";
import { openSqlServer } from "../../src/sql/sqlserver/index.js";
import { startTdsPeer, type TdsPeer } from "../support/tds-peer.js";

/** The settings that no test server has. All other statements go to a peer that says yes to everything. */
const withSettings = (db: Database, row: SqlRow): Database => ({
  ...db,
  driver: {
    ...db.driver,
    query: (statement, params, options) =>
      statement.name === "inspect settings"
        ? Promise.resolve([row])
        : db.driver.query(statement, params, options),
  },
});

describe("migrate checks the settings of SQL Server", () => {
  let peer: TdsPeer;
  let db: Database;
  beforeEach(async () => {
    peer = await startTdsPeer();
    db = openSqlServer({ url: `mssql://app:x@127.0.0.1:${peer.port}/shop?encrypt=false` });
  });
  afterEach(async () => {
    await db.close();
    await peer.close();
  });

  it.each([
    [{ compatibility: 120, version: 15, snapshot: true }, /compatibility level is 120; it must be 130/],
    [{ compatibility: 130, version: 13, snapshot: true }, /version is 13; it must be 14 \(SQL Server 2017\)/],
  ])("MID-01 ADD-14 refuses %o, says why, and creates nothing", async (row, message) => {
    const refused = migrate(withSettings(db, row));
    await expect(refused).rejects.toThrow(InvalidOperationError);
    await expect(refused).rejects.toThrow(message);
    expect([peer.logins(), peer.requests()]).toEqual([0, 0]);
  });

  it("MID-01 ADD-14 warns of READ_COMMITTED_SNAPSHOT that is off, and goes on", async () => {
    const row = { compatibility: 150, version: 16, snapshot: false };
    const { warnings } = await migrate(withSettings(db, row));
    expect(warnings).toEqual([expect.stringMatching(/READ_COMMITTED_SNAPSHOT is off.*Run: alter database/)]);
    expect(peer.requests()).toBeGreaterThan(0);
    expect((await migrate(withSettings(db, { ...row, snapshot: true }))).warnings).toEqual([]);
  });
});
