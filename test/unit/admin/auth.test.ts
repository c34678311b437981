import { afterEach, describe, expect, it } from "vitest";
import { type AdminOptions, createAdmin } from "../../../src/admin/create-admin.js";
import { adminRoutes } from "../../../src/admin/routes.js";
import { routeTable } from "../../../src/http/routes.js";
import { allRequests } from "../../support/admin/all-requests.js";
import { sqliteAdmin, sqliteStores } from "../../support/admin/sqlite-admin.js";
import { adminToken } from "../../support/admin/start-admin.js";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function started(options: Partial<AdminOptions> = {}) {
  const admin = await sqliteAdmin(options);
  closing.push(admin.close);
  return admin;
}

const secret = adminToken.slice("alice:".length);

describe("the tokens of the diagnostics API", () => {
  it("MSG-14 the list of requests that these tests send has every route", async () => {
    const stores = await sqliteStores();
    closing.push(() => stores.db.close());
    const routes = adminRoutes({ stores, tokens: adminToken });
    const find = routeTable(routes);
    const tested = allRequests
      .map(({ method, path }) => find(method, path.split("?")[0]!))
      .map((match) => match.kind === "found" && match.route);
    expect(new Set(tested)).toEqual(new Set(routes));
  });

  it("MSG-14 ADD-02 every route is closed without a token and with a wrong one, and reads nothing of the request then", async () => {
    for (const [token, status] of [
      [null, 401],
      ["alice:wrong-secret-0123456789", 401],
      [secret, 401],
      [`bob:${secret}`, 401],
      [adminToken.toUpperCase(), 401],
      [`${adminToken},${adminToken}`, 401],
      [adminToken, undefined],
    ] as const) {
      const now = { ms: 0 };
      const admin = await started({ clock: () => new Date(now.ms) });
      for (const request of allRequests) {
        now.ms += 60_000; // an address with too many wrong tokens would be answered 429
        const { method, path, body } = request;
        const isAlive = token === null && path === "health";
        const answer = await admin.as(token).send(`/_oncebox/${path}`, {
          method,
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        });
        const expected = isAlive ? 200 : (status ?? request.status);
        expect(answer.status, `${token} ${method} ${path}`).toBe(expected);
        expect(answer.headers.get("cache-control")).toBe("no-store");
        expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
        expect(answer.headers.get("set-cookie")).toBeNull();
        expect(answer.headers.get("access-control-allow-origin")).toBeNull();
        if (expected === 401) {
          expect(answer.body).toBe("");
          expect(answer.headers.get("www-authenticate")).toBe('Bearer realm="oncebox admin"');
        }
      }
    }
  });

  it("MSG-14 a wrong token is 401 whatever the request is, and neither token nor secret is in the log", async () => {
    const { as, post, lines } = await started();
    const wrong = as("mallory:guessed-secret-0123456789");
    expect((await wrong.post("inbox/dead/discard", "not json")).status).toBe(401);
    expect((await wrong.get("inbox/messages?nonsense=1")).status).toBe(401);
    expect((await post("inbox/dead/replay", "not json")).status).toBe(400);
    expect(lines()).toContain('"outcome":"Unauthorized","status":401');
    for (const hidden of [secret, "guessed-secret", "mallory"]) expect(lines()).not.toContain(hidden);
  });

  it("MSG-14 several tokens in one text, and fetched ones; each name is recorded as who did it", async () => {
    let text = `${adminToken}\nbob:other-secret-0123456789`;
    let now = 0;
    const { as, get } = await started({
      tokens: () => text,
      tokensMaxAgeMs: 60_000,
      clock: () => new Date(now),
    });
    const start = { action: "discard", filter: {} };
    for (const token of [adminToken, "bob:other-secret-0123456789"])
      expect((await as(token).post("inbox/operations", start)).status).toBe(200);
    const { operations } = (await get("inbox/operations")).json;
    expect(operations.map(({ by }: { by: string }) => by).sort()).toEqual(["alice", "bob"]);
    text = adminToken;
    now = 60_000;
    expect((await as("bob:other-secret-0123456789").get("tenants")).status).toBe(401);
  });

  it("MSG-14 tokens that cannot be fetched or have the wrong form are 503, and their text is nowhere", async () => {
    for (const tokens of [
      () => "",
      () => secret,
      () => "x:short",
      () => `a b:${secret}`,
      () => `:${secret}`,
    ]) {
      const { get, lines } = await started({ tokens });
      const { status, body } = await get("inbox/stats");
      expect(status).toBe(503);
      for (const text of [body, lines()]) expect(text).not.toContain(secret);
    }
    const stores = await sqliteStores();
    closing.push(() => stores.db.close());
    const make = (tokens: string) => () => createAdmin({ stores, tokens });
    expect(make(secret)).toThrow("admin: tokens: one is not of the form name:secret.");
    expect(make("x:short")).toThrow("one has a secret that has fewer than 16 characters");
    expect(make(`${"n".repeat(65)}:${secret}`)).toThrow("has a name of more than 64 characters");
    expect(make("")).toThrow("one is missing or empty");
  });

  it("ADD-02 a request may name the person: one that cannot be recorded is refused", async () => {
    const { send } = await started();
    const by = (name: string) => send("/_oncebox/tenants", { headers: { "x-oncebox-by": name } });
    const invisible = [
      "\u202e",
      "\u2066",
      "\u200b",
      "\u200d",
      "\ufeff",
      "\u00ad",
      "\u3164",
      "\u2028",
      "\u{e0041}",
      "\x1b",
    ];
    const hidden = invisible.map((one) => encodeURIComponent(`al${one}ice`));
    for (const bad of ["%", "%00", "x".repeat(101), "%0A", "%20", ...hidden]) {
      const { status, json } = await by(bad);
      expect([status, json?.error.field], bad).toEqual([400, "x-oncebox-by"]);
    }
    expect((await by(encodeURIComponent("Zoë"))).status).toBe(200);
  });
});

describe("the limits of the diagnostics API", () => {
  const clock = (now: { ms: number }) => () => new Date(now.ms);

  it("MSG-14 after 10 wrong tokens in a minute further ones of the address are answered 429 until the minute is over; the right one is not", async () => {
    const now = { ms: 1_000_000 };
    const { as, get } = await started({ clock: clock(now) });
    const wrong = as("alice:wrong-secret-0123456789");
    for (let n = 0; n < 10; n++) expect((await wrong.get("tenants")).status).toBe(401);
    const blocked = await wrong.get("tenants");
    expect([blocked.status, blocked.headers.get("retry-after")]).toEqual([429, "60"]);
    expect((await get("tenants")).status).toBe(200); // operators may share the address of a proxy with who guesses
    now.ms += 59_999;
    expect((await wrong.get("tenants")).status).toBe(429);
    now.ms += 1;
    expect((await wrong.get("tenants")).status).toBe(401);
  });

  it("MSG-14 addresses are counted apart, and requests without a token are no wrong tokens", async () => {
    const stores = await sqliteStores();
    closing.push(() => stores.db.close());
    const { respond } = createAdmin({ stores, tokens: adminToken });
    const ask = async (client: string, token?: string) => {
      const authorization = token === undefined ? null : `Bearer ${token}`;
      const headers = { get: (name: string) => (name === "authorization" ? authorization : null) };
      const path = "/_oncebox/tenants";
      const request = { method: "GET", url: `http://x${path}`, path, headers, body: null, client };
      return (await respond(request)).status;
    };
    for (let n = 0; n < 10; n++) expect(await ask("192.0.2.1", "a:wrong-secret-0123456789")).toBe(401);
    for (let n = 0; n < 20; n++) expect(await ask("192.0.2.2")).toBe(401);
    expect(await ask("192.0.2.1", "a:wrong-secret-0123456789")).toBe(429);
    expect(await ask("192.0.2.2", "a:wrong-secret-0123456789")).toBe(401);
  });

  it("MSG-14 an instance answers so many requests in a minute; those without a token cannot use up the others' number", async () => {
    const now = { ms: 0 };
    const { as, get, send } = await started({ requestsPerMinute: 3, clock: clock(now) });
    const open = as(null);
    for (const path of ["/_oncebox/none", "/_oncebox/tenants", "/_oncebox/inbox/stats"])
      expect((await open.send(path)).status).not.toBe(429);
    for (const path of ["/_oncebox/tenants", "/_oncebox/none"])
      expect((await open.send(path)).status, path).toBe(429);
    for (const path of ["/_oncebox", "/_oncebox/page.js", "/_oncebox/health"])
      expect((await open.send(path)).status, path).toBe(200); // they say nothing, and a load balancer asks for the health
    expect((await open.send("/_oncebox/tenants", { method: "DELETE" })).status).toBe(429);
    for (let n = 0; n < 3; n++) expect((await get("tenants")).status).toBe(200);
    expect((await send("/_oncebox/health")).status).toBe(429);
    now.ms += 60_000;
    expect((await get("tenants")).status).toBe(200);
  });
});
