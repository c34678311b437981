import type { APIGatewayProxyEventV2, Context } from "aws-lambda";
import { describe, expect, it, onTestFinished } from "vitest";
import * as z from "zod/mini";
import {
  messageDispatchFunction,
  messageMaintainFunction,
  messageReceiveFunction,
} from "../../../src/adapters/aws/index.js";
import { timeBudget } from "../../../src/base/async.js";
import { silentLogger } from "../../../src/base/logger.js";
import { openDatabase } from "../../../src/config/database-url.js";
import { secretsFromEnvironment } from "../../../src/config/secret-reference.js";
import { ArgumentRangeError } from "../../../src/errors.js";
import { hostService } from "../../../src/messaging/hosted-service.js";
import {
  createService,
  defineMessages,
  type OpenService,
  type ServiceContext,
  signal,
  signEnvelope,
} from "../../../src/messaging/index.js";
import type { Database } from "../../../src/sql/dialect.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { httpEvent } from "../../runtime/aws/http-events.js";
import { order } from "./support.js";

const context = { getRemainingTimeInMillis: () => 20_000 } as Context;
const secret = Buffer.alloc(24, 1).toString("base64");

/** A service whose first `failures` creations fail. */
function inventory(failures = 0) {
  const db = openSqlite({ file: ":memory:" });
  onTestFinished(() => db.close());
  let calls = 0;
  const open: OpenService = async ({ logger }) => {
    if (++calls <= failures) throw new ArgumentRangeError("The store of secrets is away.");
    const service = createService({
      serviceId: "inventory",
      db,
      messages: defineMessages({ OrderApproved: signal(z.object({ orderId: z.string() })) }),
      sources: { orders: { secrets: [secret], endpoints: "*" } },
      receive: { OrderApproved: () => {} },
      logger: { ...logger, info() {}, warn() {} },
    });
    await service.init();
    return service;
  };
  return { open, calls: () => calls };
}

const approved = (parts: Partial<APIGatewayProxyEventV2> = {}): APIGatewayProxyEventV2 => {
  const body = signEnvelope(order, { destination: "inventory", secrets: [secret], now: new Date() });
  return httpEvent({ body, ...parts });
};

describe("a service in functions", () => {
  it("FUN-12 MSG-05 functions of one process share one service, which is made once for all invocations", async () => {
    const { open, calls } = inventory();
    const receive = messageReceiveFunction(open);
    const dispatch = messageDispatchFunction(open);
    const maintain = messageMaintainFunction(open);
    expect(await receive(approved(), context)).toMatchObject({ statusCode: 200 });
    const again = await receive(approved({ rawPath: "/" }), context);
    expect(JSON.parse(again.body!)).toMatchObject({ duplicateDetected: true });
    expect(await dispatch({}, context)).toMatchObject({ claimed: 0, stopped: "drained" });
    expect(await maintain({}, context)).toMatchObject({ inbox: { done: 0 } });
    expect(calls()).toBe(1);
  });

  it("FUN-12 a service that could not be made is made by a later invocation", async () => {
    const { open, calls } = inventory(2);
    const dispatch = messageDispatchFunction(open); // the first attempt, while the module loads
    await expect(dispatch({}, context)).rejects.toThrow("The store of secrets is away.");
    const receive = messageReceiveFunction(open);
    expect(await receive(approved(), context)).toMatchObject({ statusCode: 200 });
    expect(calls()).toBe(3);
  });

  it("MSG-12 refuses a service instead of a function, another result, and another event", async () => {
    const { open } = inventory();
    const service = await open({ logger: console } as unknown as ServiceContext);
    expect(() => messageReceiveFunction(service as never)).toThrow(/Give a function that makes the service/);
    await expect(messageDispatchFunction((() => ({})) as never)({}, context)).rejects.toThrow(
      /must return that of createService/,
    );
    await expect(messageReceiveFunction(open)({} as never, context)).rejects.toThrow(
      /messageReceiveFunction got another event than it takes/,
    );
    const method = await messageReceiveFunction(open)(httpEvent({ method: "GET" }), context);
    expect(method).toMatchObject({ statusCode: 405, body: "" });
  });

  it("MSG-08 MSG-12 FUN-12 a service gets the database and the secrets that the environment names or refers to, and its database is closed after it", async () => {
    const stored = new Map([
      ["url", "sqlite::memory:"],
      ["shop", `${secret}\n\n${Buffer.alloc(24, 2).toString("base64")} \n`],
    ]);
    const reference = (id: string) => JSON.stringify({ from: "aws-secrets-manager", id });
    const fromEnvironment = secretsFromEnvironment({
      ONCEBOX_DATABASE_URL: reference("url"),
      SHOP_SECRET: reference("shop"),
      PLAIN: "one",
    });
    let failures = 1;
    const opened: Database[] = [];
    const host = hostService(
      async ({ database, secrets, logger }) => {
        const db = await database(openDatabase);
        opened.push(db);
        if (failures-- > 0) throw new Error("not now");
        expect(await secrets("SHOP_SECRET")).toEqual([secret, Buffer.alloc(24, 2).toString("base64")]);
        expect(await secrets("PLAIN")).toEqual(["one"]);
        await expect(secrets("OTHER")).rejects.toThrow(
          /variable OTHER, which should hold a secret, is not set/,
        );
        const messages = defineMessages({ OrderApproved: signal(z.object({ orderId: z.string() })) });
        const service = createService({ serviceId: "inventory", db, messages, logger });
        await service.init();
        return service;
      },
      {
        loggerAt: () => silentLogger,
        resolveSecret: async (from) =>
          from.from === "aws-secrets-manager" ? stored.get(from.id)! : fromEnvironment(from),
      },
    );
    const isOpen = (db: Database) =>
      db.driver.query({ name: "one", text: "select 1 as one", unprepared: true }, {}).then(
        () => true,
        () => false,
      );
    await expect(host.ready()).rejects.toThrow("not now");
    const service = await host.ready();
    expect(await Promise.all(opened.map(isOpen))).toEqual([false, true]);
    expect(await service.maintain(timeBudget(20_000))).toMatchObject({ inbox: { done: 0 } });
    await service.close();
    expect(await Promise.all(opened.map(isOpen))).toEqual([false, false]);
  });
});
