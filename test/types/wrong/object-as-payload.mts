import { createOutbox } from "oncebox";
import { openSqlite } from "oncebox/sqlite";

const outbox = createOutbox(openSqlite({ file: "app.db" }));
await outbox.enqueue({ topic: "receipt.send", payload: { invoice: "7" } });
