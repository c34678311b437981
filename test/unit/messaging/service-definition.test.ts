import { describe, expect, it } from "vitest";
import { z } from "zod";
import {
  command,
  createService,
  defineMessages,
  type ServiceOptions,
  signal,
} from "../../../src/messaging/index.js";
import { type AnyServiceOptions, defaults, settingsOf } from "../../../src/messaging/service-options.js";
import { openPostgres } from "../../../src/sql/postgres/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";

const db = openSqlite({ file: ":memory:" });
const secret = Buffer.alloc(24, 7).toString("base64");
const address = "http://127.0.0.1:4001/_rf/receive";
const messages = defineMessages({
  OrderApproved: signal(z.object({ orderId: z.string() })),
  ReserveStock: command(z.object({}), z.object({})),
});
type Options = ServiceOptions<typeof messages, string>;
const right: Options = {
  serviceId: "orders",
  db,
  messages,
  destinations: { inventory: { address, secrets: [secret] } },
};

/** The problems that the error lists. */
function problems(options: object): readonly string[] {
  try {
    createService({ ...right, ...options } as Options);
    return [];
  } catch (error) {
    expect(error).toMatchObject({
      code: "ONCEBOX_INVALID_ARGUMENT",
      message: expect.not.stringContaining(secret),
    });
    return (error as Error).message.split("\n- ").slice(1);
  }
}

describe("the definition of a service", () => {
  it("MSG-12 a right one is created without I/O, and named in errors of a wrong one", () => {
    expect(problems({})).toEqual([]);
    expect(() => createService(null as never)).toThrow(/the options must be an object/);
    expect(problems({ destinations: null, receive: { ReserveStock: () => ({}) } })).toEqual([]);
    expect(() => createService({ ...right, ttlMs: 0 })).toThrow(/The service "orders" cannot be created/);
  });

  it("MSG-18 notify is for an outbox on PostgreSQL, and for a service without a wakeUp", () => {
    const postgres = openPostgres({ url: "postgres://nobody@127.0.0.1:1/none" });
    const wakeUp = async () => async () => {};
    expect(problems({ notify: false })).toEqual([]);
    expect(problems({ notify: true, db: postgres })).toEqual([]);
    expect(problems({ notify: true, db: { outbox: postgres, inbox: db } })).toEqual([]);
    expect(problems({ notify: true, db: { outbox: db, inbox: postgres }, wakeUp })).toEqual([
      "notify needs an outbox on PostgreSQL; give a wakeUp instead, or neither",
      "give notify or wakeUp, not both",
    ]);
    expect(problems({ notify: "yes" })).toEqual(["notify must be true or false"]);
    expect(problems({ notify: true, db: null })).toContain(
      "notify needs an outbox on PostgreSQL; give a wakeUp instead, or neither",
    );
  });

  it("MSG-12 all problems are in one error", () => {
    expect(
      problems({
        serviceId: "or/ders",
        db: {},
        messages: [messages, { ReserveStock: messages.ReserveStock }],
        destinations: {
          inventory: { address },
          billing: { address: "ftp://host", secrets: ["c2hvcnQ="] },
        },
        sources: { shop: { secrets: [] }, web: { secrets: [secret], endpoints: ["ReserveStok"] } },
        receive: { Unknown: () => {} },
        onResponse: { OrderApproved: () => {} },
        onDead: "call me",
        retries: 3,
        batchSize: 0,
      }),
    ).toEqual([
      expect.stringMatching(/unknown option retries/),
      'serviceId must not contain "/"',
      expect.stringMatching(/^db must be a database/),
      'the endpoint "ReserveStock" is declared twice; endpoint names are unique',
      expect.stringMatching(/^receive.Unknown: no such message. Known: OrderApproved, ReserveStock/),
      "onResponse.OrderApproved: only a command has a response",
      "destinations.inventory has no secret; give secrets: [the text that both services share]",
      expect.stringMatching(/^destinations.billing.address: Unknown scheme ftp:/),
      expect.stringMatching(/^destinations.billing.secrets\[0\] /),
      'sources.shop.endpoints must be a list of the endpoints that it may call, or "*" for all of them',
      expect.stringMatching(/^sources.shop.secrets is empty/),
      'sources.web.endpoints: no message "ReserveStok". Known: OrderApproved, ReserveStock',
      "onDead must be a function",
      expect.stringMatching(/^batchSize must be/),
    ]);
  });

  it("ADD-22 a source without endpoints is refused; all of them must be asked for", () => {
    const from = (source: object) => problems({ sources: { shop: { secrets: [secret], ...source } } });
    expect(from({})).toEqual([expect.stringMatching(/^sources.shop.endpoints must be a list/)]);
    expect(from({ endpoints: true })).toEqual([
      expect.stringMatching(/^sources.shop.endpoints must be a list/),
    ]);
    expect(from({ endpoints: ["*"] })).toEqual([expect.stringMatching(/no message "\*"/)]);
    expect(from({ endpoints: "*" })).toEqual([]);
    expect(from({ endpoints: ["OrderApproved"] })).toEqual([]);
  });

  it("MSG-12 MSG-22 a schema that says that it cannot be JSON is refused, unless it does take JSON", () => {
    const withSchema = (schema: unknown, takesJson = false) =>
      problems({ messages: { Dated: { messageType: "Signal", payload: schema, takesJson } } });
    expect(withSchema(z.object({ on: z.date() }))).toEqual([
      expect.stringMatching(/^the schema for the payload of "Dated" cannot be sent as JSON: Date cannot be/),
    ]);
    expect(withSchema(z.bigint())).toEqual([expect.stringMatching(/BigInt/)]);
    expect(withSchema(z.map(z.string(), z.string()))).toEqual([expect.stringMatching(/Map/)]);
    expect(withSchema(z.object({ on: z.coerce.date() }), true)).toEqual([]);
    expect(
      withSchema({ "~standard": { version: 1, vendor: "own", validate: () => ({ value: 1 }) } }),
    ).toEqual([]);
    expect(withSchema({ on: "date" })).toEqual([expect.stringMatching(/must be a Standard Schema/)]);
    expect(problems({ messages: { Plain: z.object({}) } })).toEqual([
      "messages.Plain must be made by signal(…), command(…) or pushCall(…)",
    ]);
    expect(problems({ messages: null })).toEqual([
      expect.stringMatching(/^messages must be what defineMessages/),
    ]);
  });

  it("MSG-12 a service that can only receive must handle each command", () => {
    expect(problems({ destinations: {}, receive: { OrderApproved: () => {} } })).toEqual([
      'the command "ReserveStock" has no handler in receive, and no destination that it could be sent to. Handle it, or leave it out of messages, which may be a list of declarations',
    ]);
    expect(problems({ destinations: {}, receive: { ReserveStock: () => ({}) } })).toEqual([]);
    expect(problems({ receive: { ReserveStock: "reserve" } })).toEqual([
      "receive.ReserveStock must be a function",
    ]);
  });

  it("MSG-10 an inbox retention below twice the longest retry window, or below the TTL, is refused", () => {
    // 2 + 4 + 8 + 16 + 32 s and five times half a second
    const windowMs = 64_500;
    const short = { ttlMs: 1_000, toleranceMs: 1_000 };
    expect(problems({ ...short, inboxRetentionMs: 2 * windowMs })).toEqual([]);
    expect(problems({ ...short, inboxRetentionMs: 2 * windowMs - 1 })).toEqual([
      `inboxRetentionMs must be at least twice the retry window, which is ${windowMs} ms: at least ${2 * windowMs}, not ${2 * windowMs - 1}`,
    ]);
    const tenHours = { retry: { maxRetries: 150, baseMs: 300_000, jitterMs: 0 } };
    expect(problems(tenHours)).toEqual([expect.stringMatching(/the retry window, which is 45000000 ms/)]);
    // only the expiry ends the retries then, and the TTL is checked anyway
    const unlimited = { retry: { maxRetries: Number.POSITIVE_INFINITY } };
    expect(problems(unlimited)).toEqual([]);
    expect(problems({ ...unlimited, inboxRetentionMs: 3_600_000 })).toEqual([
      expect.stringMatching(/^inboxRetentionMs must be at least ttlMs/),
    ]);
    const source = { sources: { slow: { secrets: [secret], endpoints: [], retryWindowMs: 13 * 3_600_000 } } };
    expect(problems(source)).toEqual([expect.stringMatching(/the retry window of the source "slow"/)]);
    expect(problems({ ttlMs: 48 * 3_600_000 })).toEqual([
      expect.stringMatching(/^inboxRetentionMs must be at least ttlMs/),
    ]);
  });

  it("MSG-08 MSG-10 an inbox retention below twice the tolerance, in which messages can be replayed, is refused", () => {
    expect(problems({ ttlMs: 1_000, inboxRetentionMs: 600_000 })).toEqual([]);
    expect(problems({ ttlMs: 1_000, inboxRetentionMs: 599_999 })).toEqual([
      expect.stringMatching(
        /^inboxRetentionMs must be at least twice toleranceMs: at least 600000, not 599999/,
      ),
    ]);
  });

  it("MSG-10 MSG-17 a retention of Failed messages that ends before they expire is refused", () => {
    expect(problems({ ttlMs: 3_600_000, failedRetentionMs: 3_600_000 })).toEqual([]);
    expect(problems({ ttlMs: 3_600_000, failedRetentionMs: 3_599_999 })).toEqual([
      expect.stringMatching(/^failedRetentionMs must be at least ttlMs \(3600000\), not 3599999/),
    ]);
  });

  it("MSG-10 MSG-18 the defaults are those of the specification", () => {
    const [second, minute, hour] = [1_000, 60_000, 3_600_000];
    expect(defaults).toMatchObject({
      pollMs: second,
      idlePollMs: second,
      batchSize: 50,
      retry: { maxRetries: 5, baseMs: 2 * second, maxMs: 5 * minute, jitterMs: 500 },
      ttlMs: 24 * hour,
      sentRetentionMs: 7 * 24 * hour,
      failedRetentionMs: Number.POSITIVE_INFINITY,
      inboxRetentionMs: 24 * hour,
      cleanupMs: 5 * minute,
      toleranceMs: 5 * minute,
      prefix: "/_rf",
    });
    // An idle outbox is polled as often as the first time, unless somebody asks for less.
    const idlePollMs = (options: object) =>
      settingsOf({ ...right, ...options } as AnyServiceOptions).idlePollMs;
    expect(idlePollMs({})).toBe(second);
    expect(idlePollMs({ pollMs: 300 })).toBe(300);
    expect(idlePollMs({ pollMs: 300, idlePollMs: minute })).toBe(minute);
  });

  it("MSG-18 wrong times, limits and paths are refused", () => {
    const names = [
      "ttlMs",
      "idlePollMs",
      "leaseMs",
      "timeoutMs",
      "handlerTimeoutMs",
      "sentRetentionMs",
      "failedRetentionMs",
      "cleanupMs",
      "toleranceMs",
    ];
    for (const name of names)
      expect(problems({ [name]: -1 })).toEqual([expect.stringMatching(`^${name} must be`)]);
    expect(problems({ pollMs: -1 })).toContainEqual(expect.stringMatching(/^pollMs must be/));
    expect(problems({ cleanupMs: 2 ** 31 })).toEqual([expect.stringMatching(/^cleanupMs must be at most/)]);
    expect(problems({ table: "x".repeat(34) })).toEqual([expect.stringMatching(/x_outbox/)]);
    expect(problems({ prefix: "rf?x" })).toEqual(['prefix must be a path, such as "/_rf"']);
    expect(problems({ retry: { maxRetries: -1 } })).toEqual([expect.stringMatching(/maxRetries/)]);
    expect(problems({ retry: { tries: 1 } })).toEqual([expect.stringMatching(/unknown option tries/)]);
    expect(problems({ table: "" })).toEqual([expect.stringMatching(/table/)]);
    expect(problems({ transports: { defaultTransport: "pigeon" } })).toEqual([
      expect.stringMatching(/defaultTransport must be one of/),
    ]);
  });

  it("MSG-09 MSG-19 a destination's address and transport are completed; in-process needs no secret", () => {
    const to = (destination: object) => problems({ destinations: { inventory: destination } });
    expect(to({ transport: "inprocess" })).toEqual([]);
    expect(to({ transport: "unix", secrets: [secret] })).toEqual([]);
    expect(to({ address: "inventory:5001", transport: "grpc", secrets: [secret] })).toEqual([]);
    expect(to({ address: "http://", secrets: [secret] })).toHaveLength(1);
    expect(to({ address, secrets: [secret], retries: 2 })).toEqual([
      expect.stringMatching(/unknown option retries/),
    ]);
  });
});
