import { createInbox, createWorker, type InboxMessage, migrate } from "../../src/index.js";
import { enableNotify, openPostgres, wakeUpOnNotify } from "../../src/sql/postgres/index.js";
import { message } from "../messages.js";
import type { OpenResident } from "./resident.js";

export const openOncebox: OpenResident = async (url, schema, { wake, pollMs, concurrency, handle }) => {
  const db = openPostgres({ url });
  await migrate(db, { schema, outbox: false });
  const queue = { kind: "inbox", schema } as const;
  if (wake === "notify") await enableNotify(db, queue);
  const inbox = createInbox(db, { schema });
  const handler = (kind: "slow" | "quick") => (job: InboxMessage) => handle(kind, Number(job.messageId));
  createWorker({
    concurrency,
    handlers: { slow: handler("slow"), quick: handler("quick") },
    store: inbox,
    pollMs,
    idlePollMs: pollMs,
    ...(wake === "notify" ? { wakeUp: wakeUpOnNotify({ url, ...queue }) } : {}),
  });
  return { add: (kind, id) => inbox.enqueue([{ ...message(String(id)), topic: kind }]) };
};
