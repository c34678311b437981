import mssql from "mssql";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createOutbox } from "../../src/index.js";
import { mssqlClient } from "../../src/sql/sqlserver/client.js";
import { sqlServerDialect } from "../../src/sql/sqlserver/dialect.js";
import { openSqlServer } from "../../src/sql/sqlserver/index.js";
import { startTdsPeer, type TdsPeer } from "../support/tds-peer.js";

/** With the real driver. What the peer answers is what SQL Server and Azure SQL send. */
describe("failed logins of a caller's pool", () => {
  let peer: TdsPeer;
  let pool: mssql.ConnectionPool;
  beforeEach(async () => {
    peer = await startTdsPeer();
    const config = { server: "127.0.0.1", port: peer.port, user: "app", options: { encrypt: false } };
    pool = new mssql.ConnectionPool(config);
  });
  afterEach(async () => {
    await pool.close();
    await peer.close();
  });
  const enqueue = () => createOutbox(openSqlServer({ pool })).enqueue({ topic: "t", payload: "" });

  it.each([10936, 42108, 18401, 921])("FUN-12 error %i is transient", async (number) => {
    peer.failLogins([{ number }]);
    await enqueue();
    await enqueue();
    expect(peer.logins()).toBe(3); // mssql logs in to test the settings, too
  });

  it("FUN-12 a wrong password is final", async () => {
    peer.failLogins([{ number: 18456 }]);
    const error: unknown = await enqueue().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ name: "ConnectionError", originalError: { number: 18456 } });
    expect(sqlServerDialect.classify(error)).toBe("permanent");
    expect(peer.logins()).toBe(1);
  });

  it("ADD-09 a paused database is waited for", async () => {
    const waits: number[] = [];
    const driver = mssqlClient({ config: {}, pool, wait: async (ms) => void waits.push(ms) });
    peer.failLogins(Array.from({ length: 9 }, () => ({ number: 40613 })));
    await driver.query({ name: "select", text: "select 1 as one" }, {});
    expect(waits.length).toBeGreaterThan(0);
  });
});
