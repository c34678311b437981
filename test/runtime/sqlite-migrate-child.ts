/** Migrates the file and prints what this process applied. */
import { migrate } from "../../src/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

const db = openSqlite({ file: process.argv[2]! });
const { applied } = await migrate(db);
await db.close();
console.log(JSON.stringify(applied));
