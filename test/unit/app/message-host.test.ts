import { describe, expect, it, onTestFinished } from "vitest";
import * as z from "zod/mini";
import { messageHost } from "../../../src/app/message-host.js";
import type { WakeUp } from "../../../src/app/wake-up.js";
import { timeBudget } from "../../../src/base/async.js";
import { uuidV7 } from "../../../src/base/uuid.js";
import { secretsFromEnvironment } from "../../../src/config/secret-reference.js";
import {
  command,
  createService,
  defineMessages,
  type Envelope,
  signal,
  signEnvelope,
} from "../../../src/messaging/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { type LogLine, recordingLogger } from "../../contract/support/recording-logger.js";

const secret = Buffer.alloc(24, 1).toString("base64");
const messages = defineMessages({
  Noted: signal(z.object({ note: z.string() })),
  Reserve: command(z.object({ item: z.string() }), z.object({ reserved: z.string() })),
});

/** An inventory in functions. Its orders take `sendMs` for each message. */
async function hosted(wakeUp: WakeUp, sendMs = 0) {
  const db = openSqlite({ file: ":memory:" });
  onTestFinished(() => db.close());
  const log: LogLine[] = [];
  const service = createService({
    serviceId: "inventory",
    db,
    messages,
    destinations: { orders: { address: "slow://orders", secrets: [secret], endpoints: "*" } },
    receive: { Noted: () => {}, Reserve: ({ item }) => ({ reserved: item }) },
    concurrency: 1,
    transports: {
      own: [
        {
          schemes: ["slow:"],
          async send() {
            await new Promise((resolve) => setTimeout(resolve, sendMs));
            return { acknowledged: true, duplicateDetected: false };
          },
          async close() {},
        },
      ],
    },
  });
  await service.init();
  const host = messageHost(
    () => service,
    { loggerAt: () => recordingLogger(log), resolveSecret: secretsFromEnvironment({}) },
    wakeUp,
  );
  const receive = async (content: Partial<Envelope>) => {
    const message: Envelope = {
      messageId: uuidV7(),
      correlationId: null,
      sourceServiceId: "orders",
      messageType: "Command",
      endpoint: "Reserve",
      payload: { item: "chair" },
      headers: {},
      ...content,
    };
    const body = signEnvelope(message, { destination: "inventory", secrets: [secret], now: new Date() });
    const request = { method: "POST", url: "/_rf/receive", headers: new Headers(), body: Buffer.from(body) };
    return (await host.receive(request)).status;
  };
  return { service, host, log, receive };
}

const waking = () => {
  let count = 0;
  return { wakeUp: { wake: async () => void count++ }, count: () => count };
};

describe("a service in functions that can be woken", () => {
  it("MSG-02 FUN-06 a message whose handler sends wakes the dispatcher before it is acknowledged, and others do not", async () => {
    const { wakeUp, count } = waking();
    const { receive } = await hosted(wakeUp);
    expect(await receive({ messageType: "Signal", endpoint: "Noted", payload: { note: "n" } })).toBe(200);
    expect(await receive({ headers: { "rf-reply-with": "acknowledgement" } })).toBe(200); // of a request
    expect(count()).toBe(0);
    const messageId = uuidV7();
    expect(await receive({ messageId })).toBe(200);
    expect(count()).toBe(1);
    expect(await receive({ messageId })).toBe(200); // a duplicate sends nothing
    expect(count()).toBe(1);
  });

  it("MSG-02 FUN-06 a wake-up that fails does not concern the message", async () => {
    const { receive, log, service } = await hosted({
      wake: async () => {
        throw new Error("secret-host is away");
      },
    });
    expect(await receive({})).toBe(200);
    expect((await service.outboxStats()).counts.Pending).toBe(1);
    expect(log).toMatchObject([
      { level: "warn", message: "waking the dispatcher failed; the messages are safe" },
    ]);
    expect(JSON.stringify(log)).not.toContain("secret-host");
  });

  it("MSG-02 FUN-06 a run whose time is up with a backlog wakes a successor, and one that is done does not", async () => {
    const { wakeUp, count } = waking();
    const { service, host } = await hosted(wakeUp, 100);
    const backlog = 30;
    for (let n = 0; n < backlog; n++) await service.send.Noted("orders", { note: `${n}` });
    const first = await host.dispatch(timeBudget(1_500), false);
    expect(first).toMatchObject({ stopped: "time" });
    expect(first.acked).toBeGreaterThan(0);
    expect(count()).toBe(1);
    const second = await host.dispatch(timeBudget(60_000), true);
    expect(second).toMatchObject({ stopped: "drained", acked: backlog - first.acked });
    expect(count()).toBe(1);
  });
});
