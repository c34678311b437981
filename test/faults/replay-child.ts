/** A process that replays dead messages and may be killed at any moment. It prints its progress: the operation's id and count. */
import { createInbox, replayDead } from "../../src/index.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

const [url, schema, rate, resume] = process.argv.slice(2) as [string, string, string, string];
const db = url.startsWith("postgres:") ? openPostgres({ url }) : openSqlite({ file: url });
const inbox = createInbox(db, schema === "" ? {} : { schema });
await replayDead(
  inbox,
  { topic: "work" },
  {
    by: "child",
    ratePerSecond: Number(rate),
    resume: resume === "" ? undefined : resume,
    onProgress: ({ id, done }) => process.stdout.write(`${id} ${done}\n`),
  },
);
await db.close();
