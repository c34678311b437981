import { mkdtemp, rm } from "node:fs/promises";
import { type RequestListener, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import express from "express";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import {
  createService,
  defineMessages,
  listen,
  receiverMiddleware,
  type ServiceOptions,
  signal,
} from "../../../src/messaging/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { testClock } from "../../contract/harness.js";
import { fieldsOf, type LogLine, recordingLogger } from "../../contract/support/recording-logger.js";
import { serveHttp } from "./transport-support.js";

const messages = defineMessages({ OrderApproved: signal(z.object({ orderId: z.string() })) });
const token = "alice:test-secret-0123456789";
const headers = { authorization: `Bearer ${token}` };
const paths = ["health", "outbox/stats", "outbox/failed", "inbox/stats"];

async function opened(options: Partial<ServiceOptions<typeof messages>> = {}) {
  const db = openSqlite({ file: ":memory:" });
  const log: LogLine[] = [];
  const service = createService({
    serviceId: "inventory",
    db,
    messages,
    admin: { tokens: token },
    logger: recordingLogger(log),
    ...options,
  });
  await service.init();
  onTestFinished(async () => {
    await service.close();
    await db.close();
  });
  return { service, db, log };
}

describe("the diagnostics of a service", () => {
  it("MSG-14 MSG-20 are served by a listener, behind the service's prefix", async () => {
    for (const prefix of ["/_rf", "/own"]) {
      const { service } = await opened({ prefix });
      const address = `http://127.0.0.1:0${prefix}/receive`;
      const listener = await listen({ address, receiver: service.receiver });
      onTestFinished(() => listener.close());
      const at = (path: string) => listener.address.replace(`${prefix}/receive`, path);
      for (const path of paths) {
        expect((await fetch(at(`${prefix}/${path}`), { headers })).status, path).toBe(200);
        expect((await fetch(at(`/other/${path}`), { headers })).status, path).toBe(404);
      }
      expect((await fetch(at(`${prefix}/outbox/messages`), { headers })).status).toBe(404);
      const wrong = await fetch(at(`${prefix}/outbox/stats`), { method: "POST", headers });
      expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "GET, HEAD, OPTIONS"]);
      expect((await fetch(at(`${prefix}/health`), { method: "HEAD" })).status).toBe(200);
    }
  });

  it("MSG-14 are served on a Unix socket", async () => {
    const folder = await mkdtemp(join(tmpdir(), "oncebox-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const socketPath = join(folder, "rf.sock");
    const { service } = await opened();
    const listener = await listen({ address: `unix://${socketPath}`, receiver: service.receiver });
    onTestFinished(() => listener.close());
    const answer = await new Promise<string>((resolve, reject) => {
      const sent = request({ socketPath, path: "/_rf/outbox/stats", headers });
      sent.on("response", (response) => resolve(text(response))).on("error", reject);
      sent.end();
    });
    expect(JSON.parse(answer)).toMatchObject({ counts: { Pending: 0, Expired: 0 } });
  });

  it("MSG-14 are served by the middleware of Express, and other paths go on to the app", async () => {
    const { service } = await opened();
    const app = express();
    app.use(receiverMiddleware(service.receiver), express.json());
    app.get("/_rf/other", (_, response) => void response.json({ own: true }));
    const { port } = await serveHttp(app as RequestListener);
    const get = async (path: string, given: object = headers) => {
      const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { ...given } });
      return response.status;
    };
    for (const path of paths) expect(await get(`/_rf/${path}`), path).toBe(200);
    expect(await get("/_rf/outbox/stats", {})).toBe(401);
    expect(await get("/_rf/other")).toBe(200);
  });

  it("MSG-14 are found behind whatever a host's own route puts before them", async () => {
    const { service } = await opened();
    const handle = async (path: string, method = "GET") => {
      const url = `https://api.example${path}`;
      const given = new Headers(headers);
      return (await service.receiver.handle({ method, url, path, headers: given, body: null })).status;
    };
    for (const path of paths) {
      expect(await handle(`/prod/_rf/${path}`), path).toBe(200);
      expect(await handle(`/${path}`), path).toBe(200);
    }
    expect(await handle("/prod/_rf/outbox/00000000-0000-4000-8000-000000000000/retry", "POST")).toBe(404);
    for (const path of ["/prod/_rf/receive", "/any/path", "/"]) {
      expect(await handle(path), path).toBe(405); // it takes messages, by POST
      expect(await handle(path, "POST"), path).toBe(400);
    }
  });

  it("MSG-14 a database that is away is 503, and the answer does not say where it is", async () => {
    const { service, db } = await opened();
    await db.close();
    const ask = async (path: string) => {
      const response = await service.receiver.fetch(new Request(`http://127.0.0.1/_rf/${path}`, { headers }));
      return { status: response.status, json: await response.json() };
    };
    expect(await ask("health")).toMatchObject({
      status: 503,
      json: { status: "failing", outbox: { reachable: false }, inbox: { reachable: false } },
    });
    expect(await ask("outbox/stats")).toMatchObject({
      status: 503,
      json: { error: { code: "Unavailable" } },
    });
    const open = await service.receiver.fetch(new Request("http://127.0.0.1/_rf/health"));
    expect(open.status).toBe(200);
  });

  it("MSG-14 ten wrong tokens in a minute are the most, and the right one is answered meanwhile", async () => {
    const clock = testClock();
    const { service, log } = await opened({ clock });
    const ask = async (given: string) => {
      const authorization = `Bearer ${given}`;
      const asked = new Request("http://127.0.0.1/_rf/outbox/stats", { headers: { authorization } });
      return (await service.receiver.fetch(asked)).status;
    };
    const statuses = [];
    for (let n = 0; n < 11; n++) statuses.push(await ask("alice:guessed-0123456789"));
    expect(statuses).toEqual([...Array(10).fill(401), 429]);
    expect(await ask(token)).toBe(200);
    clock.advance(60_000);
    expect(await ask("alice:guessed-0123456789")).toBe(401);
    const lines = fieldsOf(log, "warn", "admin");
    expect(lines.map(({ status, refusedSinceLastLine = 0 }) => [status, refusedSinceLastLine])).toEqual([
      [401, 0],
      [429, 0],
      [401, 9],
    ]);
    expect(JSON.stringify(log)).not.toContain("guessed");
  });

  it("MSG-14 tokens and settings that cannot work are refused when the service is created", () => {
    const db = openSqlite({ file: ":memory:" });
    const create = (admin: unknown) => () =>
      createService({ serviceId: "inventory", db, messages, admin } as ServiceOptions<typeof messages>);
    expect(create({})).toThrow(/tokens: one is missing or empty/);
    expect(create({ tokens: "" })).toThrow(/tokens: one is missing or empty/);
    expect(create({ tokens: [] })).toThrow(/tokens: there is none/);
    expect(create({ tokens: "without-a-name" })).toThrow(/is not of the form name:secret/);
    expect(create({ tokens: token, callMs: 0 })).toThrow(/callMs/);
    expect(create({ tokens: token, requestsPerMinute: 0.5 })).toThrow(/requestsPerMinute/);
    expect(create({ tokens: token, token })).toThrow(/unknown option token/);
    expect(create({ tokens: () => token })).not.toThrow();
  });
});
