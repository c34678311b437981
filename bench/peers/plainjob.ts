import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { loadSqlite } from "../../src/sql/sqlite/client.js";
import type { SqliteBinding } from "../bare/sqlite.js";
import { payloadBytes } from "../messages.js";
import { jobCounter, type OpenPeer } from "./peer.js";

/** The part of plainjob that is used. */
interface Plainjob {
  defineQueue(options: { connection: Connection; logger: Logger }): Queue;
  defineWorker(
    type: string,
    processor: () => void,
    options: { queue: Queue; logger: Logger; pollIntervall: number },
  ): { start(): Promise<void>; stop(): Promise<void> };
}
interface Queue {
  addMany(type: string, jobs: readonly unknown[]): unknown;
  close(): void;
}
type Logger = Readonly<Record<"debug" | "info" | "warn" | "error", () => void>>;

/** What plainjob takes as a connection. */
interface Connection {
  readonly driver: "better-sqlite3";
  readonly filename: string;
  pragma(text: string): void;
  exec(text: string): void;
  prepare(text: string): unknown;
  transaction(work: (...values: never[]) => unknown): unknown;
  close(): void;
}

const versions = ["plainjob@0.0.14", "better-sqlite3@12"] as const;
const silent = () => {};
const logger: Logger = { debug: silent, info: silent, warn: silent, error: silent };

/** Not a dependency: better-sqlite3 is compiled where its prebuilt file cannot be downloaded, which takes minutes. */
function installed(): string {
  const folder = join(tmpdir(), "oncebox-bench-plainjob");
  const install = (packages: readonly string[]) =>
    execFileSync("npm", ["install", "--prefix", folder, "--no-audit", "--no-fund", ...packages], {
      stdio: "ignore",
      shell: process.platform === "win32",
    });
  if (existsSync(join(folder, "node_modules", "plainjob"))) return folder;
  mkdirSync(folder, { recursive: true });
  try {
    install(versions);
  } catch {
    install(versions.slice(0, 1)); // on oncebox's own binding then
  }
  return folder;
}

async function connect(folder: string, file: string): Promise<Connection> {
  try {
    const require = createRequire(join(folder, "package.json"));
    const Database = require("better-sqlite3") as new (
      file: string,
    ) => Omit<Connection, "driver" | "filename">;
    const database = new Database(file);
    return {
      driver: "better-sqlite3",
      filename: file,
      pragma: (text) => database.pragma(text),
      exec: (text) => database.exec(text),
      prepare: (text) => database.prepare(text),
      transaction: (work) => database.transaction(work),
      close: () => database.close(),
    };
  } catch {
    const DatabaseSync = (await loadSqlite()) as unknown as new (file: string) => SqliteBinding;
    return likeBetterSqlite(new DatabaseSync(file), file);
  }
}

/** better-sqlite3's shape over oncebox's own binding. */
function likeBetterSqlite(database: SqliteBinding, filename: string): Connection {
  const inTransaction =
    (begin: string, work: (...values: never[]) => unknown) =>
    (...values: never[]) => {
      database.exec(begin);
      const result = work(...values);
      database.exec("commit");
      return result;
    };
  return {
    driver: "better-sqlite3",
    filename,
    pragma: (text) => database.exec(`pragma ${text}`),
    exec: (text) => database.exec(text),
    prepare: (text) => database.prepare(text),
    transaction: (work) =>
      Object.assign(inTransaction("begin", work), { immediate: inTransaction("begin immediate", work) }),
    close: () => database.close(),
  };
}

/** One worker: plainjob handles one job at a time, and a second worker in the process would only alternate with it. */
export const openPlainjob: OpenPeer = async (file) => {
  const folder = installed();
  const entry = join(folder, "node_modules", "plainjob", "dist", "plainjob.js");
  const { defineQueue, defineWorker } = (await import(pathToFileURL(entry).href)) as Plainjob;
  const queue = defineQueue({ connection: await connect(folder, file), logger });
  const data = { text: "x".repeat(payloadBytes) };
  return {
    async fill(count) {
      for (let left = count; left > 0; left -= 500)
        queue.addMany("nothing", new Array(Math.min(left, 500)).fill(data));
    },
    async drain(count) {
      const counter = jobCounter(count);
      const worker = defineWorker("nothing", () => counter.count(1), { queue, logger, pollIntervall: 1 });
      const running = worker.start();
      const rate = await counter.rate;
      await worker.stop();
      await running;
      return rate;
    },
    close: async () => queue.close(),
  };
};
