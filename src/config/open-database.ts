import type { Database } from "../sql/dialect.js";
import { databaseOpeners } from "./database-openers.js";
import { type OpenDatabaseOptions, openByUrl } from "./database-url.js";

/** Opens the database that a URL names. A bundle can open only the dialects it was built with. */
export const openDatabase = (url: string, options?: OpenDatabaseOptions): Promise<Database> =>
  openByUrl(databaseOpeners, url, options);
