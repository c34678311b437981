import type { Database } from "./dialect.js";
import type { SqlRow, SqlStatement } from "./driver.js";
import type { QueueNames } from "./names.js";

export const objectKinds = ["table", "index", "view", "routine", "trigger"] as const;
export type ObjectKind = (typeof objectKinds)[number];

/** A setting of the database that oncebox does not work well with. */
export interface WrongSetting {
  readonly message: string;
  /** What changes it. */
  readonly run: string;
  /** The database works with it, though less well. */
  readonly tolerable: boolean;
}

/** An object and what the functions' user must be allowed to do with it. */
export interface NeededPrivileges {
  readonly object: string;
  readonly privileges: readonly string[];
}

/** How a dialect reads its database's catalogue. The statements change nothing. */
export interface Inspection {
  /** Whether the catalogue's name is the one that the schema gave. */
  readonly isName: (live: string, given: string) => boolean;
  /** :schema → kind, name and, where the database keeps it, text of each object that the user can see */
  readonly objects: SqlStatement;
  /** :schema → table_name, name */
  readonly columns: SqlStatement;
  /** → now, in milliseconds since 1970. Undefined where the database has the process's clock. */
  readonly clock: SqlStatement | undefined;
  /** :schema → user_name, sees_all: whether the user sees the objects that it has no privileges on */
  readonly user: SqlStatement | undefined;
  /** :schema → name, privilege, allowed. Undefined where there are no users. */
  readonly privileges: SqlStatement | undefined;
  readonly needed: (queue: QueueNames) => readonly NeededPrivileges[];
  readonly grant: (queue: QueueNames, missing: NeededPrivileges, user: string) => string;
  /** → one row, for `wrongSettings` */
  readonly settings: SqlStatement | undefined;
  readonly wrongSettings: (row: SqlRow) => readonly WrongSetting[];
  /** Problems of the file, and the database opened so that nothing of it changes. Undefined for a server. */
  readonly file?: (db: Database) => Promise<InspectedFile>;
}

export interface InspectedFile {
  readonly wrong: readonly WrongSetting[];
  readonly db: Database;
}
