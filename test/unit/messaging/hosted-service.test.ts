import type { APIGatewayProxyEventV2, Context } from "aws-lambda";
import { describe, expect, it, onTestFinished } from "vitest";
import * as z from "zod/mini";
import {
  messageDispatchFunction,
  messageMaintainFunction,
  messageReceiveFunction,
} from "../../../src/adapters/aws/index.js";
import { ArgumentRangeError } from "../../../src/errors.js";
import {
  createService,
  defineMessages,
  type OpenService,
  signal,
  signEnvelope,
} from "../../../src/messaging/index.js";
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
    const service = await open({ logger: console });
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
});
