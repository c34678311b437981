/** Prints the rows of a query on a SQLite file: in a process of its own, so that the file is surely closed afterwards. */
import { openSqlite } from "../../../src/sql/sqlite/index.js";

const [file, sql] = process.argv.slice(2) as [string, string];
const db = openSqlite({ file });
console.log(JSON.stringify(await db.driver.query({ name: "query", text: sql }, {})));
await db.close();
