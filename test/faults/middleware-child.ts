/**
 * Handles the two messages of a FIFO group with transaction, inbox and outbox middleware, and kills itself at one of the
 * points between two statements. Prints how many points it passed when it is not killed.
 */
import { openMined } from "./mined-database.js";
import { groupOfTwo, orderFunction } from "./order-function.js";

const [url, schema, group, killAt] = process.argv.slice(2) as [string, string, string, string];
const db = openMined(url, Number(killAt));
await orderFunction(db, schema === "" ? undefined : schema)(groupOfTwo(group));
console.log(db.passed());
await db.close();
