import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { silentLogger } from "../../../src/base/logger.js";
import {
  type ApiRoute,
  adminTokens,
  call,
  type HttpApi,
  openHttpApis,
  secretOf,
  serviceToken,
  signedBody,
} from "../../support/attacks/http-apis.js";
import { storedRows } from "../messaging/stored-rows.js";

let opened: Awaited<ReturnType<typeof openHttpApis>>;
beforeAll(async () => {
  opened = await openHttpApis(silentLogger);
});
afterAll(() => opened.close());

const apiNamed = (name: string): HttpApi => opened.apis.find((one) => one.name === name)!;

/** No token, a wrong one, another API's, another's name with one's own secret, and what a browser sends by itself. */
const strangers: readonly (string | undefined)[] = [
  undefined,
  "Bearer",
  "Bearer alice:wrong-secret-0123456789",
  "Bearer alice:other-secret-0123456789",
  "Bearer test-secret-0123456789",
  "Bearer wrong-token-0123456789",
  `Basic ${Buffer.from(adminTokens.alice).toString("base64")}`,
  `Basic ${Buffer.from(`:${serviceToken}`).toString("base64")}`,
];
const foreignTo = (name: string): readonly string[] =>
  name === "inbox service"
    ? Object.values(adminTokens).map((token) => `Bearer ${token}`)
    : [`Bearer ${serviceToken}`];

/** What a page of another site can make a browser send without a preflight. */
const simpleTypes = [
  "text/plain",
  "text/plain;charset=UTF-8",
  "application/x-www-form-urlencoded",
  "multipart/form-data; boundary=x",
];
const page = { origin: "https://page.example", "sec-fetch-site": "cross-site", cookie: "session=1" };

const privateHeaders = { "cache-control": "no-store", "x-content-type-options": "nosniff" };

function expectClosed(response: Awaited<ReturnType<typeof call>>, what: string): void {
  expect(response.status, what).toBe(401);
  expect(response.body ?? "", what).toBe("");
  expectPrivate(response, what);
}

function expectPrivate({ headers = {} }: Awaited<ReturnType<typeof call>>, what: string): void {
  expect(headers, what).toMatchObject(privateHeaders);
  const names = Object.keys(headers).join();
  expect(names, what).not.toMatch(/set-cookie|access-control/);
}

/** Each attack in a minute of its own: ten wrong tokens of one address within a minute are answered 429. */
async function attack(one: HttpApi, route: ApiRoute, headers: Record<string, string> = {}) {
  opened.clock.ms += 60_000;
  return call(one, route, headers);
}

describe("every route of every API with a token", () => {
  const apisWithToken = () => opened.apis.filter(({ right }) => right !== undefined);

  it("SVC-07 MSG-14 the tables have routes", () => {
    expect(apiNamed("diagnostics").routes.length).toBeGreaterThan(30);
    expect(apiNamed("diagnostics of a messaging service").routes.length).toBeGreaterThan(4);
    expect(apiNamed("inbox service").routes.length).toBeGreaterThan(6);
  });

  it("SVC-07 MSG-14 is closed without a token, with a wrong one and with one of another API", async () => {
    const before = await storedRows(opened.db);
    for (const one of apisWithToken())
      for (const route of one.routes)
        for (const authorization of [...strangers, ...foreignTo(one.name)]) {
          const headers = authorization === undefined ? undefined : { authorization };
          const response = await attack(one, route, headers);
          const what = `${one.name} ${route.method} ${route.path} ${authorization}`;
          if (route.isPublic && authorization === undefined) {
            expect([response.status, response.body], what).toEqual([200, '{"status":"ok"}']);
            expectPrivate(response, what);
          } else expectClosed(response, what);
        }
    expect(await storedRows(opened.db)).toEqual(before);
  });

  it("SVC-07 MSG-14 is closed to a page of another site, whatever a browser sends without a preflight", async () => {
    const before = await storedRows(opened.db);
    for (const one of apisWithToken())
      for (const route of one.routes.filter(({ method }) => method === "POST"))
        for (const type of simpleTypes) {
          const response = await attack(
            one,
            { ...route, body: '{"key":"a"}' },
            { ...page, "content-type": type },
          );
          expectClosed(response, `${one.name} ${route.path} ${type}`);
        }
    expect(await storedRows(opened.db)).toEqual(before);
  });

  it("SVC-07 MSG-14 a preflight is allowed nothing", async () => {
    const asks = {
      ...page,
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization",
    };
    for (const one of opened.apis)
      for (const { path } of one.routes) {
        const response = await attack(one, { method: "OPTIONS", path }, asks);
        expectPrivate(response, `${one.name} ${path}`);
      }
  });

  it("SVC-07 MSG-14 MSG-18 no answer may be cached", async () => {
    for (const one of opened.apis)
      for (const route of [
        ...one.routes,
        { method: "GET", path: "/none" },
        { method: "PUT", path: one.routes[0]!.path },
      ]) {
        const response = await attack(
          one,
          route,
          one.right === undefined ? {} : { authorization: one.right },
        );
        expect(response.status, route.path).not.toBe(401);
        expectPrivate(response, `${one.name} ${route.method} ${route.path}`);
      }
  });
});

describe("the inbox service without tokens", () => {
  it.each([
    [{ "sec-fetch-site": "cross-site" }, 403],
    [{ "sec-fetch-site": "same-site" }, 403],
    [{ origin: "https://page.example", host: "10.0.0.5:8080" }, 403],
    [{ origin: "null", host: "10.0.0.5:8080" }, 403],
    [{ origin: "http://10.0.0.5:8080", host: "10.0.0.5:8080" }, 200],
    [{ "sec-fetch-site": "same-origin", origin: "https://x.example" }, 200],
    [{ "sec-fetch-site": "none" }, 200],
    [{}, 200],
  ])("SVC-07 refuses a page of another site: %j %i", async (headers: Record<string, string>, status) => {
    const route = { method: "POST", path: "/v1/inbox/mark", body: `{"key":"page-${status}"}` };
    const response = await call(opened.open, route, { "content-type": "text/plain", ...headers });
    expect(response.status).toBe(status);
    expectPrivate(response, JSON.stringify(headers));
    const report = await call(opened.open, { method: "GET", path: "/v1/inbox/page-403" });
    expect(report.body).toBe('{"status":"Unknown"}');
  });

  it("SVC-07 every route refuses a page of another site", async () => {
    for (const route of opened.open.routes)
      expect((await call(opened.open, route, page)).status, route.path).toBe(403);
  });
});

describe("the messaging receiver", () => {
  const minutes = (n: number) => new Date(Date.now() + n * 60_000);

  it("MSG-08 MSG-18 is closed without a signature, with a wrong one and with another service's", async () => {
    const receiver = apiNamed("messaging receiver");
    const before = await storedRows(opened.db);
    const bodies: Readonly<Record<string, string>> = {
      wrong: signedBody({}, { secret: secretOf(9) }),
      "another service's secret": signedBody({}, { secret: secretOf(2) }),
      "one's own secret in another's name": signedBody({ sourceServiceId: "billing" }),
      unknown: signedBody({ sourceServiceId: "stranger" }),
      inherited: signedBody({ sourceServiceId: "constructor" }),
      "for another service": signedBody({}, { destination: "billing" }),
      old: signedBody({}, { now: minutes(-6) }),
      "of the future": signedBody({}, { now: minutes(6) }),
    };
    for (const [what, body] of Object.entries(bodies))
      for (const type of ["application/json", ...simpleTypes]) {
        const route = { ...receiver.routes[0]!, body };
        expectClosed(await call(receiver, route, { ...page, "content-type": type }), `${what} ${type}`);
      }
    const unsigned = JSON.stringify(JSON.parse(signedBody()), (name, value) =>
      name === "rf-hmac" ? undefined : value,
    );
    expect((await call(receiver, { ...receiver.routes[0]!, body: unsigned })).status).toBe(400);
    expect(await storedRows(opened.db)).toEqual(before);
    const genuine = await call(receiver, { ...receiver.routes[0]!, body: signedBody() });
    expect(genuine.status).toBe(200);
    expectPrivate(genuine, "genuine");
  });
});

describe("the admin page", () => {
  it("ADD-02 cannot be framed, and its files have the right headers", async () => {
    for (const path of ["/_oncebox", "/_oncebox/", "/_oncebox/page.js", "/_oncebox/page.css"]) {
      const response = await attack(apiNamed("diagnostics"), { method: "GET", path });
      expect(response.status, path).toBe(200);
      expectPrivate(response, path);
      expect(response.headers, path).toMatchObject({
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
      });
      expect(response.headers!["content-security-policy"]).toMatch(
        /default-src 'none'.*form-action 'none'; frame-ancestors 'none'/,
      );
    }
  });
});
