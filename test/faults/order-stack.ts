import { type Database, statement } from "../../src/index.js";
import {
  currentTransaction,
  inbox,
  outbox,
  type Stack,
  stack,
  transaction,
} from "../../src/middleware/index.js";

/** The whole stack around two business rows and two outgoing messages, all of them named after the message. */
export function orderStack(db: Database, schema: string | undefined): Stack<{ readonly messageId: string }> {
  const named = schema === undefined ? {} : { schema };
  const prefix = schema === undefined ? "" : `${schema}.`;
  const parameter = db.dialect.name === "sqlserver" ? "@id" : ":id";
  const insertInto = (table: string) =>
    statement(`insert ${table}`, `insert into ${prefix}${table} (id) values (${parameter})`);
  return stack(
    [transaction(db), inbox({ subscriber: "s", ...named }), outbox(named)],
    async ({ messageId }) => {
      const tx = currentTransaction()!;
      await tx.query(insertInto("orders"), { id: messageId });
      await tx.query(insertInto("lines"), { id: messageId });
      return ["placed", "billed"].map((topic) => ({ topic, payload: messageId }));
    },
  );
}
