import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { databaseOpeners } from "../../src/config/database-openers.js";
import { openByUrl } from "../../src/config/database-url.js";
import { listening } from "../../src/http/node.js";
import { createInboxService } from "../../src/inbox-store/http/inbox-service.js";
import { createSqlInboxStore } from "../../src/inbox-store/sql-inbox-store.js";
import { migrate } from "../../src/index.js";
import { openBareTryBegin } from "../bare/try-begin.js";
import { answerParent } from "../peers/answer-parent.js";
import { connections, type ServerAnswer, token } from "./two-servers.js";

// One side's server, in a process of its own. Whatever it is asked, it returns a ServerAnswer.
interface Side {
  readonly listener: RequestListener;
  close(): Promise<void>;
}

const [side, url, schema] = process.argv.slice(2) as ["oncebox" | "bare", string, string];

async function oncebox(): Promise<Side> {
  const db = await openByUrl(databaseOpeners, url, { maxConnections: connections });
  const named = schema === "" ? {} : { schema };
  await migrate(db, { ...named, outbox: false });
  const store = createSqlInboxStore(db, named);
  const { listener } = createInboxService({ store, tokens: [token] });
  return {
    listener,
    async close() {
      await store.close();
      await db.close();
    },
  };
}

async function bare(): Promise<Side> {
  const store = await openBareTryBegin(url, schema, connections);
  return {
    async listener(request, response) {
      const { key, leaseSeconds } = (await bodyOf(request)) as { key: string; leaseSeconds: number };
      const body = JSON.stringify(await store.tryBegin(key, leaseSeconds * 1_000));
      response
        .writeHead(200, { "content-type": "application/json", "content-length": body.length })
        .end(body);
    },
    close: store.close,
  };
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks).toString());
}

const { listener, close } = await { oncebox, bare }[side]();
const server = createServer(listener);
server.keepAliveTimeout = 600_000; // while the other side is measured
await listening(server, { port: 0, host: "127.0.0.1" });

answerParent(
  async (): Promise<ServerAnswer> => ({ port: (server.address() as AddressInfo).port }),
  async () => {
    server.close();
    server.closeAllConnections();
    await close();
  },
);
