import type { Database, Inbox } from "../../src/index.js";
import type { BareIngest, BareQueue } from "../bare/bare-sql.js";
import type { PeerName } from "../peers/peer.js";
import type { StartedPeer } from "../peers/start-peer.js";
import type { ResidentName, ResidentSettings } from "../residents/resident.js";
import type { StartedResident } from "../residents/start-resident.js";

export interface OpenInbox {
  readonly inbox: Inbox;
  /** Where another process finds it; SQLite has no schemas, so there it is "". */
  readonly url: string;
  readonly schema: string;
  close(): Promise<void>;
}

export interface Backlog {
  readonly pending: number;
  readonly done: number;
}

/** Settings of a function in a process of its own: where its tables are, and a table "bare" beside them. */
export interface FunctionsTarget {
  readonly env: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

/** For the tables of another process: an empty file, or the name of a schema that the process creates. */
export interface Place {
  readonly url: string;
  readonly schema: string;
  close(): Promise<void>;
}

/** A database to measure on. Everything it opens is empty and has a schema or a file of its own. */
export interface BenchDatabase {
  readonly title: string;
  openInbox(connections: number, backlog?: Backlog): Promise<OpenInbox>;
  openBareIngest(connections: number): Promise<BareIngest>;
  openBareQueue(pending: number): Promise<BareQueue>;
  openForFunctions(): Promise<FunctionsTarget>;
  newPlace(): Place;
  /** Other queues on such a database. */
  readonly peers: readonly PeerName[];
  startPeer(name: PeerName): Promise<StartedPeer>;
  /** Queues with a worker that stays, where there are others to compare with. */
  readonly startResident?: (
    name: ResidentName,
    settings: Pick<ResidentSettings, "wake" | "pollMs">,
  ) => Promise<StartedResident>;
  /** How often `work` went to the database with anything. */
  countRoundTrips(opened: OpenInbox, work: () => Promise<unknown>): Promise<number>;
  close(): Promise<void>;
}

/** Runs one statement of the bench's own. */
export const runSql = (db: Database, text: string): Promise<unknown> =>
  db.driver.query({ name: "bench", text, unprepared: true }, {});

/** What was opened in a schema, with a `close` that drops the schema afterwards. */
export const closingThen =
  (drop: (schema: string) => Promise<void>) =>
  <T extends { close(): Promise<void> }>(opened: T, schema: string): T => ({
    ...opened,
    async close() {
      await opened.close();
      await drop(schema);
    },
  });
