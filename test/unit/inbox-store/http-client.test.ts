import { randomUUID } from "node:crypto";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, describe, expect, it } from "vitest";
import { closeServer, listening } from "../../../src/http/node.js";
import {
  createHttpInboxStore,
  type HttpInboxStoreOptions,
} from "../../../src/inbox-store/client/http-inbox-store.js";
import type { LeasingInboxStore } from "../../../src/inbox-store/inbox-store.js";
import { startProxy } from "../../support/cuttable-proxy.js";
import { sqliteService } from "../../support/inbox-service/sqlite-service.js";
import { token } from "../../support/inbox-service/start-service.js";
import { type Decision, decideFault, type Fault } from "../../support/lossy/decide-fault.js";
import { startLossyProxy } from "../../support/lossy-proxy.js";

// At once, because most of them wait for the next attempt.
describe.concurrent("the client of the inbox service", () => {
  const closing: (() => Promise<unknown>)[] = [];
  afterAll(async () => {
    await Promise.all(closing.map((close) => close()));
  });

  /** The real service behind a network that treats each request as `decide` says. */
  const behindProxy = async (
    decide: (index: number) => Decision,
    options: Partial<HttpInboxStoreOptions> = {},
  ) => {
    const service = await sqliteService();
    closing.push(service.close);
    const target = { port: Number(new URL(service.url).port) };
    const listen = { port: 0 };
    const proxy = await startLossyProxy({ protocol: "http", listen, target, decide, maxHoldMs: 100 });
    closing.push(proxy.close);
    const url = `http://127.0.0.1:${proxy.address.port}`;
    return { proxy, url, store: createHttpInboxStore({ url, token, ...options }) };
  };
  const firstSuffers = (fault: Fault) => (index: number) =>
    ({ fault: index === 0 ? fault : "none", amount: 0.5 }) as const;

  /** A server that gives the answers of a test, for those that the service itself does not give on demand. */
  const answering = async (answer: RequestListener): Promise<LeasingInboxStore> => {
    const server = createServer(answer);
    await listening(server, { port: 0, host: "127.0.0.1" });
    closing.push(() => closeServer(server, 1_000));
    return createHttpInboxStore({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/inbox` });
  };

  it.each<Fault>(["drop-request", "drop-answer", "cut-request", "cut-answer", "duplicate"])(
    "SVC-09 a try-begin that suffers %s is repeated, and gets its own lease",
    async (fault) => {
      const { store, proxy } = await behindProxy(firstSuffers(fault));
      const begun = await store.tryBegin("k", { owner: "billing" });
      expect(begun).toMatchObject({ status: "Acquired" });
      expect(proxy.arrived).toBe(fault === "duplicate" ? 1 : 2);
      expect(await store.inspect("k")).toMatchObject({ status: "Leased", attempts: 1, owner: "billing" });
    },
  );

  it.each<Fault>(["drop-request", "drop-answer", "cut-request", "cut-answer", "duplicate"])(
    "SVC-09 a mark that suffers %s is repeated, and says Processed",
    async (fault) => {
      let suffers = false;
      const { store } = await behindProxy(() => {
        const decision = { fault: suffers ? fault : ("none" as const), amount: 0.5 };
        suffers = false;
        return decision;
      });
      const begun = (await store.tryBegin("k")) as { leaseId: string };
      suffers = true;
      expect(await store.finish("k", begun.leaseId)).toEqual({ status: "Processed" });
    },
  );

  it("SVC-09 without a proposed lease id, a try-begin whose answer was lost ends Busy", async () => {
    const { store } = await behindProxy(firstSuffers("drop-answer"), { proposeLeaseId: false });
    expect(await store.tryBegin("k")).toMatchObject({ status: "Busy" });
  });

  it("SVC-09 over a bad network each key is acquired once and processed", async () => {
    const plan = { seed: "bad network", share: 0.3 };
    const { store, proxy } = await behindProxy((index) => decideFault(plan, index));
    const keys = Array.from({ length: 25 }, (_, index) => `k${index}`);
    await Promise.all(
      keys.map(async (key) => {
        const begun = await store.tryBegin(key);
        if (begun.status !== "Acquired") throw new Error(begun.status);
        expect(await store.finish(key, begun.leaseId)).toEqual({ status: "Processed" });
      }),
    );
    await proxy.idle();
    for (const key of keys)
      expect(await store.inspect(key)).toMatchObject({ status: "Processed", attempts: 1 });
    expect(proxy.arrived).toBeGreaterThan(3 * keys.length);
  });

  it("SVC-07 SVC-09 a wrong token is reported and the call not repeated, and no error quotes it", async () => {
    const wrong = "wrong-token-0123456789";
    const { store, proxy, url } = await behindProxy(() => ({ fault: "none", amount: 0 }), { token: wrong });
    const error = await store.tryBegin("k").catch((one) => one);
    expect(error).toMatchObject({ code: "ONCEBOX_INBOX_SERVICE", status: 401, isTransient: false });
    expect(error.message).toMatch(/does not know the token/);
    expect(JSON.stringify(error) + error.stack).not.toContain(wrong);
    expect(proxy.arrived).toBe(1);
    await expect(createHttpInboxStore({ url }).isProcessed("k")).rejects.toThrow(/wants a bearer token/);
  });

  it("SVC-07 SVC-09 a refused request is reported with its field and not repeated", async () => {
    const { store, proxy } = await behindProxy(() => ({ fault: "none", amount: 0 }));
    const error = await store.tryBegin("k", { leaseMs: 3_600_000 }).catch((one) => one);
    expect(error).toMatchObject({ status: 400, field: "leaseSeconds", isTransient: false });
    expect(error.message).toMatch(/leaseSeconds must be/);
    expect(proxy.arrived).toBe(1);
  });

  it("SVC-09 a service that is busy is asked again, but not before it wants to be", async () => {
    let requests = 0;
    const soon = await answering((_, response) => {
      requests++;
      if (requests < 3) response.writeHead(503, { "retry-after": "0" }).end();
      else response.end('{"status":"Released"}');
    });
    expect(await soon.release("k", randomUUID())).toEqual({ status: "Released" });
    requests = 0;
    const later = await answering((_, response) => {
      requests++;
      response.writeHead(429, { "retry-after": "3600" }).end();
    });
    await expect(later.release("k", randomUUID())).rejects.toMatchObject({
      status: 429,
      isTransient: true,
      retryAfterMs: 3_600_000,
    });
    expect(requests).toBe(1);
  });

  it("SVC-09 a service that never answers ends the call, with what happened", async () => {
    const service = await sqliteService();
    closing.push(service.close);
    const proxy = await startProxy("127.0.0.1", Number(new URL(service.url).port));
    closing.push(() => proxy.cut());
    proxy.muteAnswers();
    const url = `http://127.0.0.1:${proxy.port}`;
    const store = createHttpInboxStore({ url, token, attemptMs: 20, timeoutMs: 5_000 });
    await expect(store.tryBegin("k")).rejects.toMatchObject({
      code: "ONCEBOX_INBOX_SERVICE",
      status: null,
      message: /did not answer in time/,
    });
  });

  it("SVC-09 an abort ends the call with the signal's reason, and it is not repeated", async () => {
    const stopping = new AbortController();
    const reason = new Error("the function's time is over");
    let requests = 0;
    const store = await answering(() => {
      requests++;
      stopping.abort(reason);
    });
    await expect(store.isProcessed("k", { signal: stopping.signal })).rejects.toBe(reason);
    expect(requests).toBe(1);
  });

  it.each([
    ["<html>", /not of the contract/],
    ['{"status":"Great"}', /field "status"/],
    ['{"status":"Acquired","leaseId":"x"}', /field "expiresAt"/],
    ['{"status":"Acquired","expiresAt":"2026-01-01T00:00:00Z"}', /field "leaseId"/],
    [`{"status":"Busy","pad":"${"x".repeat(100_000)}"}`, /not of the contract/],
  ])("SVC-09 an answer that is not of the contract is no success: %.40s", async (body, message) => {
    const store = await answering((_, response) => response.end(body));
    await expect(store.tryBegin("k")).rejects.toThrow(message);
  });

  it("SVC-09 no redirect is followed: another host must not get the token", async () => {
    const store = await answering((_, response) =>
      response.writeHead(307, { location: "/v1/inbox/x" }).end(),
    );
    await expect(store.isProcessed("k")).rejects.toMatchObject({ status: 307 });
  });

  it("SVC-09 a service with the paths of the common contract only: a mark takes the lease, and a busy key is reported", async () => {
    const paths: (string | undefined)[] = [];
    let status = "Acquired";
    const store = await answering((request, response) => {
      paths.push(request.url);
      if (request.url === "/inbox/v1/inbox/mark") response.writeHead(404).end();
      else if (request.url === "/inbox/v1/inbox/mark-processed") response.end('{"status":"Processed"}');
      else response.end(JSON.stringify({ status, leaseId: "l", expiresAt: "2026-01-01T00:00:00Z" }));
    });
    await store.markProcessed("k");
    const name = (path: string | undefined) => path?.split("/").at(-1);
    expect(paths.map(name)).toEqual(["mark", "try-begin", "mark-processed"]);
    status = "Busy";
    await expect(store.markProcessed("k")).rejects.toMatchObject({ code: "ONCEBOX_INBOX_KEY_BUSY" });
  });

  it("SVC-04 SVC-09 the lease id of another service is sent back as it came", async () => {
    const leaseId = "Lease/ABC-7f";
    const sent: unknown[] = [];
    const store = await answering(async (request, response) => {
      sent.push((JSON.parse(await text(request)) as { leaseId: string }).leaseId);
      const expiresAt = "2026-01-01T00:00:00Z";
      const status = ["Acquired", "Renewed", "Released", "Processed"][sent.length - 1];
      response.end(JSON.stringify({ status, leaseId, expiresAt }));
    });
    const begun = (await store.tryBegin("k")) as { leaseId: string };
    await store.renew("k", begun.leaseId, 60_000);
    await store.release("k", begun.leaseId);
    await store.finish("k", begun.leaseId);
    expect(sent.slice(1)).toEqual([leaseId, leaseId, leaseId]);
  });

  it("SVC-04 SVC-09 a mark by a lease that is lost meanwhile is no success", async () => {
    const store = await answering((request, response) => {
      if (request.url?.endsWith("/mark")) response.writeHead(404).end();
      else if (request.url?.endsWith("/mark-processed")) response.end('{"status":"LeaseLost"}');
      else response.end('{"status":"Acquired","leaseId":"l","expiresAt":"2026-01-01T00:00:00Z"}');
    });
    await expect(store.markProcessed("k")).rejects.toMatchObject({ code: "ONCEBOX_LEASE_LOST" });
  });

  it("SVC-09 refuses bad options, all in one error, and does not quote the token", () => {
    const bad = { url: "ftp://host", token: "with a space", timeoutMs: 0, attemptMs: -1 };
    expect(() => createHttpInboxStore(bad)).toThrow(
      /url must be .*; token must be .*; timeoutMs .*; attemptMs /,
    );
    expect(() => createHttpInboxStore(bad)).not.toThrow(/with a space/);
    expect(() => createHttpInboxStore({ url: "http://h", ttl: 1 } as never)).toThrow(/unknown option ttl/);
    expect(() => createHttpInboxStore({ url: "http://user:secret@h" })).toThrow(/without user/);
  });
});
