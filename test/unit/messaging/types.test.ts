import { describe } from "vitest";
import { typePrograms } from "../../support/type-programs.js";

/** What every program begins with. */
const head = `
import { z } from "zod";
import { command, createService, defineMessages, pushCall, responseReference, signal } from "oncebox/messaging";
import { openSqlite } from "oncebox/sqlite";

const db = openSqlite({ file: ":memory:" });
const messages = defineMessages({
  OrderApproved: signal(z.object({ orderId: z.string(), lines: z.array(z.object({ count: z.number() })).optional() })),
  Scheduled: signal(z.object({ at: z.string().transform((text) => new Date(text)) })),
  ReserveStock: command(z.object({ item: z.string() }), z.object({ reserved: z.boolean() })),
  MakeReport: command(z.object({}), z.object({ text: z.string() }), { byReference: true }),
  InvoicePaid: pushCall(z.object({ invoice: z.string() }), z.object({ receipt: z.string() })),
});
const orders = createService({ serviceId: "orders", db, messages, destinations: { inventory: { address: "http://127.0.0.1:1/_rf/receive", secrets: ["c2VjcmV0LXNlY3JldC1zZWNyZXQ="] } } });
`;

const right = `
const id: string = await orders.send.OrderApproved("inventory", { orderId: "7", lines: [{ count: 1 }] });
await orders.send.Scheduled("inventory", { at: "2030-01-01" }, { correlationId: id, maxRetries: 1 });
const { reserved }: { reserved: boolean } = await orders.request.ReserveStock("inventory", { item: "chair" });
const report = await orders.request.MakeReport("inventory", {});
const text: string = "url" in report ? report.url : report.text;
const pay = orders.pushCall.InvoicePaid("inventory", async ({ invoice }) => ({ receipt: invoice, more: 1 }));
const paid: number = (await pay({ invoice: "1" })).more;
interface Tree { readonly name: string; readonly children: readonly Tree[] }
const tree: z.ZodType<Tree, Tree> = z.lazy(() => z.object({ name: z.string(), children: z.array(tree) }));
const more = defineMessages({ Grown: signal(tree), Dated: signal(z.object({ on: z.coerce.date() }), { takesJson: true }) });
const both = createService({
  serviceId: "both",
  db,
  messages: [messages, more],
  receive: {
    OrderApproved: ({ orderId }, { tx, sourceServiceId }) => [orderId.length, tx, sourceServiceId],
    Scheduled: ({ at }) => at.getTime(),
    ReserveStock: async ({ item }) => ({ reserved: item === "chair" }),
    MakeReport: () => responseReference("https://files.example/1"),
    InvoicePaid: ({ input, output }) => input.invoice + output.receipt,
    Grown: ({ children }) => children.length,
    Dated: ({ on }) => on.getTime(),
  },
  onResponse: {
    ReserveStock: ({ reserved }, { inReplyTo }) => reserved && inReplyTo,
    MakeReport: (response) => ("url" in response ? response.url : response.text),
  },
  onDead: (message, { state, error }) => [message.payload, state, error],
});
export { both, paid, reserved, text };
`;

/** Each is one mistake, and the compiler's words for it. */
const wrong: Readonly<Record<string, readonly [program: string, error: RegExp]>> = {
  "an unknown endpoint": [`await orders.send.OrderAproved("inventory", { orderId: "7" });`, /OrderAproved/],
  "an unknown destination": [`await orders.send.OrderApproved("billing", { orderId: "7" });`, /"billing"/],
  "a payload of another type": [`await orders.send.OrderApproved("inventory", { orderId: 7 });`, /number/],
  "the schema's output where it wants its input": [
    `await orders.send.Scheduled("inventory", { at: new Date() });`,
    /Date/,
  ],
  "a request that is no command": [
    `await orders.request.OrderApproved("inventory", { orderId: "7" });`,
    /OrderApproved/,
  ],
  "a push call that is sent": [`await orders.send.InvoicePaid("inventory", {});`, /InvoicePaid/],
  "a response of another type": [
    `const n: number = (await orders.request.ReserveStock("inventory", { item: "x" })).reserved;`,
    /boolean/,
  ],
  "a pushed function with another output": [
    `orders.pushCall.InvoicePaid("inventory", async () => ({ receipt: 7 }));`,
    /number/,
  ],
  "a handler for an unknown endpoint": [
    `createService({ serviceId: "s", db, messages, receive: { Unknown: () => {} } });`,
    /Unknown/,
  ],
  "a handler that reads another payload": [
    `createService({ serviceId: "s", db, messages, receive: { OrderApproved: ({ id }) => id } });`,
    /'id'/,
  ],
  "a command's handler without a response": [
    `createService({ serviceId: "s", db, messages, receive: { ReserveStock: async () => {} } });`,
    /void/,
  ],
  "a reference from a command that has none": [
    `createService({ serviceId: "s", db, messages, receive: { ReserveStock: () => responseReference("https://x.example") } });`,
    /ResponseReference/,
  ],
  "a response handler of a signal": [
    `createService({ serviceId: "s", db, messages, onResponse: { OrderApproved: () => {} } });`,
    /OrderApproved/,
  ],
  "a payload with a bigint": [`signal(z.object({ n: z.bigint() }));`, /cannot be written as JSON/],
  "a payload with a date deep inside": [
    `signal(z.object({ lines: z.array(z.object({ at: z.date() })) }));`,
    /cannot be written as JSON/,
  ],
  "a response with a Map": [
    `command(z.object({}), z.object({ m: z.map(z.string(), z.string()) }));`,
    /cannot be written as JSON/,
  ],
  "what is no schema": [`signal({ orderId: "string" });`, /StandardSchema/],
};

describe("types of services", () => typePrograms({ id: "MSG-12", head, right, wrong }));
