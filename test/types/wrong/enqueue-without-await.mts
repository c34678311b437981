import { createOutbox } from "oncebox";
import { openSqlite } from "oncebox/sqlite";

const outbox = createOutbox(openSqlite({ file: "app.db" }));
export const id: string = outbox.enqueue({ topic: "receipt.send", data: {} });
