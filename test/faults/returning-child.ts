/** Drains an inbox whose handlers return messages, and kills itself at one of the points between two statements. */
import { openMined } from "./mined-database.js";
import { drainReturning, type HandlerKind } from "./returning-dispatcher.js";

const [url, schema, kind, killAt] = process.argv.slice(2) as [string, string, HandlerKind, string];
const db = openMined(url, Number(killAt));
await drainReturning(db, { schema, kind });
console.log(db.passed());
await db.close();
