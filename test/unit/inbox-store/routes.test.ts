import { Validator } from "@seriousme/openapi-schema-validator";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sqliteService } from "../../support/inbox-service/sqlite-service.js";
import { type StartedService, token } from "../../support/inbox-service/start-service.js";

let service: StartedService;
beforeAll(async () => {
  service = await sqliteService();
});
afterAll(() => service.close());

const headers = { authorization: `Bearer ${token}` };

describe("paths and methods", () => {
  it("SVC-07 an unknown path is 404, with and without a token", async () => {
    for (const path of [
      "/",
      "/v1",
      "/v1/",
      "/v1/inbox",
      "/v2/inbox/a",
      "/v1/inboxes/a",
      "/v1/openapi.yaml",
      "/status",
    ])
      for (const init of [{}, { headers }, { method: "POST", headers, body: "{}" }]) {
        const { status, json } = await service.send(path, init);
        expect([status, json.error.code], path).toEqual([404, "NotFound"]);
      }
  });

  it("SVC-07 another method is 405 with Allow", async () => {
    const allowed = {
      "/v1/inbox/try-begin": "GET, HEAD, POST, OPTIONS",
      "/v1/inbox/some-key": "GET, HEAD, OPTIONS",
      "/v1/openapi.json": "GET, HEAD, OPTIONS",
    };
    for (const [path, allow] of Object.entries(allowed))
      for (const method of ["PUT", "PATCH", "DELETE", ...(allow.includes("POST") ? [] : ["POST"])]) {
        const answer = await service.send(path, { method, headers });
        expect(
          [answer.status, answer.headers.get("allow"), answer.json.error.code],
          `${method} ${path}`,
        ).toEqual([405, allow, "MethodNotAllowed"]);
      }
  });

  it("SVC-07 OPTIONS names the methods and needs no token; HEAD is GET without a body", async () => {
    const options = await service.send("/v1/inbox/try-begin", { method: "OPTIONS" });
    expect([options.status, options.headers.get("allow"), options.body]).toEqual([
      204,
      "GET, HEAD, POST, OPTIONS",
      "",
    ]);
    expect(options.headers.get("access-control-allow-origin")).toBeNull();
    const got = await service.send("/v1/inbox/a", { headers });
    const head = await service.send("/v1/inbox/a", { method: "HEAD", headers });
    expect([head.status, head.body]).toEqual([200, ""]);
    expect(head.headers.get("content-length")).toBe(String(got.body.length));
    expect((await service.send("/v1/inbox/a", { method: "HEAD" })).status).toBe(401);
    expect((await service.send("/v1/openapi.json", { method: "HEAD" })).status).toBe(200);
  });

  it("SVC-07 a prefix that a gateway adds is passed over, and so is the query", async () => {
    const body = JSON.stringify({ key: "a" });
    const { status, json } = await service.send("/prod/v1/inbox/inspect?x=1", {
      method: "POST",
      headers,
      body,
    });
    expect([status, json]).toEqual([200, { status: "Unknown" }]);
    expect((await service.send("/prod/v1/openapi.json")).status).toBe(200);
  });

  it("SVC-07 every answer may not be cached and announces the authentication", async () => {
    const paths = ["/v1/openapi.json", "/v1/inbox/a", "/nowhere"];
    const inits = [{}, { headers }, { method: "PUT" }, { method: "OPTIONS" }];
    for (const path of paths)
      for (const init of inits) {
        const answer = await service.send(path, init);
        expect(answer.headers.get("cache-control"), path).toBe("no-store");
        expect(answer.headers.get("oncebox-auth"), path).toBe("bearer");
        expect(answer.headers.get("x-content-type-options"), path).toBe("nosniff");
      }
  });
});

describe("the OpenAPI document", () => {
  it("SVC-07 is valid OpenAPI 3.1, is served without a token, and says which authentication there is", async () => {
    const { status, headers: answered, body } = await service.send("/v1/openapi.json");
    const json = JSON.parse(body);
    expect([status, answered.get("content-type")]).toEqual([200, "application/json"]);
    expect(await new Validator().validate(json)).toMatchObject({ valid: true });
    expect(json).toMatchObject({
      openapi: "3.1.0",
      security: [{ bearer: [] }],
      components: { securitySchemes: { bearer: { type: "http", scheme: "bearer" } } },
    });
    expect(Object.keys(json.paths)).toEqual([
      "/v1/inbox/try-begin",
      "/v1/inbox/mark-processed",
      "/v1/inbox/release",
      "/v1/inbox/renew",
      "/v1/inbox/mark",
      "/v1/inbox/inspect",
      "/v1/inbox/{key}",
      "/v1/openapi.json",
    ]);
    expect(JSON.stringify(json)).not.toContain(token);
  });

  it("SVC-07 SVC-08 follows the options: no security for auth none, and the bounds of leases", async () => {
    const open = await sqliteService({ auth: "none", minLeaseSeconds: 5, maxLeaseSeconds: 10 });
    try {
      const json = JSON.parse((await open.send("/v1/openapi.json")).body);
      expect(await new Validator().validate(json)).toMatchObject({ valid: true });
      expect(json.security).toEqual([]);
      expect(json.components.securitySchemes).toEqual({});
      expect(json.components.schemas.TryBeginRequest.properties.leaseSeconds).toMatchObject({
        minimum: 5,
        maximum: 10,
      });
      expect((await open.post("try-begin", { key: "a", leaseSeconds: 5 })).status).toBe(200);
      expect((await open.post("try-begin", { key: "a", leaseSeconds: 30 })).status).toBe(400);
      expect((await open.post("try-begin", { key: "b" })).json.status).toBe("Acquired");
    } finally {
      await open.close();
    }
  });
});
