import { z } from "zod";
import { type Database, statement } from "../../../src/index.js";
import { command, defineMessages, listen, type Service } from "../../../src/messaging/index.js";
import type { SqlQueryable } from "../../../src/sql/driver.js";
import { openPostgres } from "../../../src/sql/postgres/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";

export interface ChildArguments {
  /** A PostgreSQL URL, or the path of a SQLite file. */
  readonly url: string;
  readonly schema?: string | undefined;
  /** Where the other service can be reached. */
  readonly peer: string;
  readonly points: string;
  /** The longest time of one delivery. */
  readonly timeoutMs: number;
}

export const messages = defineMessages({
  ReserveStock: command(z.object({ orderId: z.string() }), z.object({ reservedFor: z.string() })),
});

export const secret = Buffer.alloc(24, 7).toString("base64");

type Route = (body: string) => Promise<unknown>;

/** What both services have in common: their arguments, the points at which they can be stopped, and a clock that can be set. */
export function childSetup(serviceId: string, tables: readonly string[]) {
  const [json, address] = process.argv.slice(2) as [string, string];
  const { url, schema, peer, points, timeoutMs } = JSON.parse(json) as ChildArguments;
  const db: Database = url.startsWith("postgres") ? openPostgres({ url }) : openSqlite({ file: url });
  const named = (table: string) => (schema === undefined ? table : `${schema}.${table}`);
  let aheadMs = 0;

  const point = async (name: string): Promise<void> => {
    await (await fetch(`${points}/${encodeURIComponent(`${serviceId}: ${name}`)}`)).arrayBuffer();
  };

  return {
    peer,
    point,
    db,
    settings: {
      serviceId,
      messages,
      timeoutMs,
      pollMs: 50,
      retry: { maxRetries: 1_000, baseMs: 20, maxMs: 200, jitterMs: 0 },
      breaker: { openMs: 50, maxOpenMs: 200 },
      clock: () => new Date(Date.now() + aheadMs),
      ...(schema === undefined ? {} : { schema }),
    },
    /** No constraint: a row that is inserted twice is there twice. */
    insert: (to: SqlQueryable, table: string, id: string) =>
      to.query(statement(`insert ${table}`, `insert into ${named(table)} (id) values (:id)`), { id }),
    async run(
      service: Pick<Service<typeof messages, string>, "init" | "start" | "receiver" | "outboxStats">,
      routes: Readonly<Record<string, Route>> = {},
    ): Promise<void> {
      const all: Readonly<Record<string, Route>> = {
        ...routes,
        "/stats": async () => (await service.outboxStats()).counts,
        "/later": async (ms) => {
          aheadMs += Number(ms);
        },
      };
      await service.init();
      for (const table of tables)
        await db.driver.query(
          {
            name: "create",
            text: `create table if not exists ${named(table)} (id varchar(100) not null)`,
            unprepared: true,
          },
          {},
        );
      const listener = await listen({
        address: address || "http://127.0.0.1:0/_rf/receive",
        async fetch(request) {
          const route = all[new URL(request.url).pathname];
          if (route !== undefined) return Response.json((await route(await request.text())) ?? null);
          await point("before it handles");
          const response = await service.receiver.fetch(request);
          await point("before the acknowledgement");
          return response;
        },
      });
      console.log(`ready ${listener.address}`);
      await point("before the worker starts");
      service.start();
    },
  };
}
