import { createOutbox } from "oncebox";
import { openPostgres } from "oncebox/postgres";
import type pg from "pg";

declare const client: pg.PoolClient;
const outbox = createOutbox(openPostgres({ url: "postgres://app@db.example/shop" }));
await outbox.enqueue({ topic: "receipt.send", data: {} }, { tx: client });
