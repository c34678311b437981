import { afterEach, describe, expect, it } from "vitest";
import { createInboxService, type InboxServiceOptions } from "../../../src/inbox-store/http/inbox-service.js";
import { createSqlInboxStore } from "../../../src/inbox-store/sql-inbox-store.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { sqliteService } from "../../support/inbox-service/sqlite-service.js";
import type { StartedService } from "../../support/inbox-service/start-service.js";

const first = "first-token-0123456789";
const second = "second.token~0123456789+/==";
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function started(options: Omit<InboxServiceOptions, "store">): Promise<StartedService> {
  const service = await sqliteService(options);
  closing.push(service.close);
  return service;
}

const held = { key: "a", leaseId: "00000000-0000-4000-8000-000000000000" };
const requests: readonly (readonly [string, string, object?])[] = [
  ["POST", "/v1/inbox/try-begin", { key: "a" }],
  ["POST", "/v1/inbox/mark-processed", held],
  ["POST", "/v1/inbox/release", held],
  ["POST", "/v1/inbox/renew", held],
  ["POST", "/v1/inbox/mark", { key: "a" }],
  ["POST", "/v1/inbox/inspect", { key: "a" }],
  ["GET", "/v1/inbox/a"],
  ["HEAD", "/v1/inbox/a"],
];

/** The status of each route, by the value of the header. */
async function statuses(service: StartedService, authorization?: string): Promise<readonly number[]> {
  const answers = requests.map(([method, path, body]) =>
    service.send(path, {
      method,
      ...(authorization === undefined ? {} : { headers: { authorization } }),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    }),
  );
  return [...new Set((await Promise.all(answers)).map(({ status }) => status))];
}

describe("bearer tokens", () => {
  it("SVC-07 every route answers 401 without a token and with a wrong one, and 200 with each of several", async () => {
    const service = await started({ tokens: [first, second] });
    const wrong = [
      undefined,
      "",
      first,
      "Bearer",
      "Bearer ",
      `Basic ${first}`,
      `Bearer ${first.slice(0, -1)}`,
      `Bearer ${first}x`,
      `Bearer ${first},${second}`,
      `Bearer ${first} ${second}`,
      `Bearer ${first.toUpperCase()}`,
      `Bearer "${first}"`,
      `Bearer x${"y".repeat(5_000)}`,
    ];
    for (const authorization of wrong)
      expect(await statuses(service, authorization), authorization).toEqual([401]);
    for (const token of [first, second]) {
      expect(await statuses(service, `Bearer ${token}`)).toEqual([200]);
      expect(await statuses(service, `bearer  ${token}`)).toEqual([200]);
    }
  });

  it("SVC-07 a 401 has WWW-Authenticate and no body, and changes nothing, whatever the request is", async () => {
    const service = await started({ tokens: first });
    for (const [method, path, body] of [
      ...requests,
      ["POST", "/v1/inbox/try-begin", { wrong: 1 }] as const,
    ]) {
      const answer = await service.send(path, {
        method,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      expect([answer.status, answer.body]).toEqual([401, ""]);
      expect(answer.headers.get("www-authenticate")).toBe('Bearer realm="oncebox"');
      expect(answer.headers.get("oncebox-auth")).toBe("bearer");
    }
    const authorization = `Bearer ${first}`;
    const { json } = await service.send("/v1/inbox/a", { headers: { authorization } });
    expect(json).toEqual({ status: "Unknown" });
  });

  it("SVC-07 auth none lets every request in, and announces it", async () => {
    const service = await started({ auth: "none" });
    expect(await statuses(service)).toEqual([200]);
    expect(await statuses(service, "Bearer whatever-it-is-0123")).toEqual([200]);
    const { headers } = await service.send("/v1/inbox/a");
    expect([headers.get("oncebox-auth"), headers.get("www-authenticate")]).toEqual(["none", null]);
  });

  it("SVC-07 fetched tokens: several in one text, fetched again when they are old, and the last ones while the store is away", async () => {
    let now = 0;
    let fetched: () => string = () => `${first}\n${second}`;
    const options = { tokens: () => fetched(), tokensMaxAgeMs: 60_000, clock: () => new Date(now) };
    const service = await started(options);
    expect(await statuses(service, `Bearer ${first}`)).toEqual([200]);
    expect(await statuses(service, `Bearer ${second}`)).toEqual([200]);
    fetched = () => `${second}, third-token-0123456789`;
    expect(await statuses(service, `Bearer ${first}`)).toEqual([200]); // not old yet
    now = 60_000;
    expect(await statuses(service, `Bearer ${first}`)).toEqual([401]);
    expect(await statuses(service, "Bearer third-token-0123456789")).toEqual([200]);
    fetched = () => {
      throw new Error(second);
    };
    now = 120_000;
    expect(await statuses(service, `Bearer ${second}`)).toEqual([200]);
    expect(service.lines()).toContain("tokens could not be refreshed");
    expect(service.lines()).not.toContain(second);
  });

  it("SVC-07 what is empty in a list of tokens authorises nobody", async () => {
    const texts = [`${first}\r\n`, "", " ,\n", `,${second},`];
    const service = await started({ tokens: (() => texts) as () => readonly string[] });
    for (const token of [first, second]) expect(await statuses(service, `Bearer ${token}`)).toEqual([200]);
    for (const nothing of ["", ",", " ", "=", "undefined", "null", "[object Object]"])
      expect(await statuses(service, `Bearer ${nothing}`), nothing).toEqual([401]);
  });

  it("SVC-07 tokens that cannot be fetched, or that are too short, are 503 and no 401: a caller tries again", async () => {
    const failing = () => {
      throw new Error(first);
    };
    for (const tokens of [failing, () => "", () => "short", () => `${first}\n${"ü".repeat(20)}`]) {
      const service = await started({ tokens });
      expect(await statuses(service, `Bearer ${first}`)).toEqual([503]);
      expect(service.lines()).not.toContain(first);
    }
  });
});

describe("createInboxService", () => {
  const db = openSqlite({ file: ":memory:" });
  const store = createSqlInboxStore(db);
  const make = (options: object) => () => createInboxService({ store, ...options } as InboxServiceOptions);

  it("SVC-07 wants either tokens or auth none, by that word", () => {
    expect(make({})).toThrow('give either tokens or auth: "none"');
    expect(make({ tokens: first, auth: "none" })).toThrow('give either tokens or auth: "none"');
    expect(make({ tokens: first, auth: "bearer" })).toThrow('auth can only be "none"');
    expect(make({ tokens: [] })).toThrow("there is none");
  });

  it("SVC-07 refuses tokens that are short or that no header can have, all in one error that quotes none", () => {
    const bad = ["fifteen-letters", "with spaces in it", "ümlaut-0123456789", "", 7];
    const error = (() => {
      try {
        make({ tokens: [first, ...bad] })();
      } catch (thrown) {
        return String(thrown);
      }
    })();
    expect(error).toMatch(/fewer than 16.*fewer than 16.*a character other than.*empty.*missing or empty/s);
    for (const token of [first, "fifteen", "ümlaut"]) expect(error).not.toContain(token);
  });

  it("SVC-08 refuses wrong bounds of leases, wrong times and unknown options", () => {
    for (const bounds of [
      { minLeaseSeconds: 0 },
      { minLeaseSeconds: 121 },
      { maxLeaseSeconds: 29 },
      { maxLeaseSeconds: 3_601 },
      { minLeaseSeconds: 30.5 },
      { minLeaseSeconds: Number.NaN },
    ])
      expect(make({ tokens: first, ...bounds }), JSON.stringify(bounds)).toThrow(
        "minLeaseSeconds and maxLeaseSeconds",
      );
    expect(make({ tokens: first, callMs: 0 })).toThrow("callMs");
    expect(make({ tokens: first, leaseSeconds: 30 })).toThrow("unknown option leaseSeconds");
    expect(make({ tokens: first, store: {} })).toThrow("store must be");
  });
});
