import { createOutbox } from "oncebox";
import { fromPg } from "oncebox/postgres";
import { openSqlite } from "oncebox/sqlite";
import type pg from "pg";

declare const client: pg.Client;
const outbox = createOutbox(openSqlite({ file: "app.db" }));
await outbox.enqueue({ topic: "receipt.send", data: {} }, { tx: fromPg(client) });
