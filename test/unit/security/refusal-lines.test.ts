import { afterEach, describe, expect, it } from "vitest";
import { createApp, defineApp } from "../../../src/index.js";
import { type LogLine, recordingLogger } from "../../contract/support/recording-logger.js";
import {
  type ApiRoute,
  call,
  type HttpApi,
  openHttpApis,
  secretOf,
  signedBody,
} from "../../support/attacks/http-apis.js";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function open() {
  const lines: LogLine[] = [];
  const opened = await openHttpApis(recordingLogger(lines));
  closing.push(opened.close);
  const apiNamed = (name: string): HttpApi => opened.apis.find((one) => one.name === name)!;
  return { ...opened, lines, apiNamed };
}

const intervalMs = 10_000;
const refusedSince = (lines: readonly LogLine[]) =>
  lines.map((line) => line.fields.refusedSinceLastLine ?? 0);

/** Each way in which a stranger is refused, at each API. */
const strangers: readonly {
  readonly api: string;
  readonly what: string;
  readonly route: ApiRoute;
  readonly headers?: Record<string, string>;
}[] = [
  { api: "diagnostics", what: "no token", route: { method: "GET", path: "/_oncebox/inbox/stats" } },
  { api: "diagnostics", what: "no route", route: { method: "GET", path: "/_oncebox/none" } },
  { api: "diagnostics", what: "another method", route: { method: "PUT", path: "/_oncebox/inbox/stats" } },
  {
    api: "diagnostics of a messaging service",
    what: "no token",
    route: { method: "GET", path: "/_rf/outbox/stats" },
  },
  { api: "inbox service", what: "no token", route: { method: "GET", path: "/v1/inbox/a" } },
  { api: "inbox service", what: "no path", route: { method: "GET", path: "/v2" } },
  { api: "messaging receiver", what: "no JSON", route: { method: "POST", path: "/_rf/receive", body: "{" } },
  {
    api: "messaging receiver",
    what: "a wrong signature",
    route: { method: "POST", path: "/_rf/receive", body: signedBody({}, { secret: secretOf(9) }) },
  },
  {
    api: "messaging receiver",
    what: "an unknown source",
    route: { method: "POST", path: "/_rf/receive", body: signedBody({ sourceServiceId: "stranger" }) },
  },
];

describe("lines on requests that nothing proves", () => {
  it.each(strangers)("SVC-07 MSG-14 $api, $what: a thousand requests write one line", async (one) => {
    const { lines, clock, apiNamed } = await open();
    lines.length = 0;
    const send = async () => (await call(apiNamed(one.api), one.route, one.headers)).status;
    for (let count = 0; count < 1_000; count++) expect(await send()).toBeGreaterThanOrEqual(400);
    expect(lines).toHaveLength(1);
    expect(lines[0]!.level).toBe("warn");
    clock.ms += intervalMs;
    await send();
    expect(refusedSince(lines)).toEqual([0, 999]);
  });

  it("SVC-07 wrong tokens, and those turned away after them, have a line each in ten seconds", async () => {
    const { lines, apiNamed } = await open();
    const route = { method: "GET", path: "/_oncebox/inbox/stats" };
    for (let count = 0; count < 1_000; count++)
      await call(apiNamed("diagnostics"), route, { authorization: `Bearer mallory:${count}` });
    expect(lines.map((line) => line.fields.status)).toEqual([401, 429]);
  });

  it("MSG-18 names that a stranger makes up write no more lines", async () => {
    const { lines, apiNamed } = await open();
    lines.length = 0;
    for (let count = 0; count < 300; count++) {
      const source = { sourceServiceId: `stranger-${count}` };
      for (const body of [signedBody(source), signedBody(source, { now: new Date(0) })])
        await call(apiNamed("messaging receiver"), { method: "POST", path: "/_rf/receive", body });
    }
    expect(lines.map((line) => line.fields.reason)).toEqual(["unknown source", "timestamp too old"]);
  });

  it("SVC-07 MSG-18 what a proven caller is refused has a line each time", async () => {
    const { lines, apiNamed } = await open();
    for (const name of ["diagnostics", "inbox service"] as const) {
      lines.length = 0;
      const { right } = apiNamed(name);
      const route =
        name === "diagnostics"
          ? { method: "GET", path: "/_oncebox/inbox/stats?none=1" }
          : { method: "POST", path: "/v1/inbox/mark", body: "{}" };
      for (let count = 0; count < 5; count++) {
        const { status } = await call(apiNamed(name), route, { authorization: right! });
        expect(status, name).toBe(400);
      }
      expect(lines, name).toHaveLength(5);
    }
  });

  it("FUN-01 an app without sources, and a cron's route, write one line for a thousand requests", async () => {
    const lines: LogLine[] = [];
    const definition = defineApp({
      database: "sqlite::memory:",
      cron: { tokens: "cron-token-0123456789" },
    });
    const app = await createApp(definition, { logger: recordingLogger(lines) });
    closing.push(() => app.close());
    for (const path of ["/webhooks/none", "/dispatch"]) {
      lines.length = 0;
      for (let count = 0; count < 1_000; count++)
        expect((await app.fetch(new Request(`http://127.0.0.1${path}`))).status).toBeGreaterThan(400);
      expect(lines, path).toHaveLength(1);
    }
  });
});
