/**
 * Commits pairs of messages, `n a` and `n b` in one transaction, and prints n after each commit. It ends after `count`
 * pairs, or when its input ends.
 */
import { createOutbox, migrate } from "../../src/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

const [file, count = "Infinity"] = process.argv.slice(2);
let isEnded = false;
process.stdin.on("end", () => {
  isEnded = true;
});
process.stdin.resume();

const db = openSqlite({ file: file! });
await migrate(db);
const outbox = createOutbox(db);
for (let n = 0; n < Number(count) && !isEnded; n++) {
  await db.driver.transaction(async (tx) => {
    for (const half of ["a", "b"]) await outbox.enqueue({ topic: "t", payload: `${n} ${half}` }, { tx });
  });
  process.stdout.write(`${n}\n`);
  await new Promise(setImmediate); // lets the end of the input arrive
}
await db.close();
process.stdin.destroy();
