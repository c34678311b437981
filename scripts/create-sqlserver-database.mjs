// Creates the database that a URL names, when the server is ready, with READ_COMMITTED_SNAPSHOT on or off.
// node scripts/create-sqlserver-database.mjs mssql://sa:password@127.0.0.1:1433/oncebox on
import { setTimeout as sleep } from "node:timers/promises";
import mssql from "mssql";

const [address, snapshot] = process.argv.slice(2);
if (!URL.canParse(address) || !/^(on|off)$/.test(snapshot ?? "")) {
  console.error(
    "Usage: node scripts/create-sqlserver-database.mjs mssql://user:password@host:port/database on|off",
  );
  process.exit(2);
}
const url = new URL(address);
const database = decodeURIComponent(url.pathname.slice(1));
const config = {
  server: url.hostname,
  port: Number(url.port || 1433),
  user: decodeURIComponent(url.username),
  password: decodeURIComponent(url.password),
  database: "master",
  options: {
    encrypt: url.searchParams.get("encrypt") !== "false",
    trustServerCertificate: url.searchParams.get("trustServerCertificate") === "true",
  },
};

/** A container takes its time to start. */
async function connect() {
  for (let attempt = 1; ; attempt++) {
    try {
      return await new mssql.ConnectionPool(config).connect();
    } catch (error) {
      if (attempt === 60) throw error;
      await sleep(2_000);
    }
  }
}

const quoted = `[${database.replaceAll("]", "]]")}]`;
const pool = await connect();
try {
  await pool.request().batch(`create database ${quoted}`);
  await pool
    .request()
    .batch(`alter database ${quoted} set read_committed_snapshot ${snapshot} with rollback immediate`);
} finally {
  await pool.close();
}
