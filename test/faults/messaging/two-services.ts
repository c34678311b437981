import { createServer, type ServerResponse } from "node:http";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import type { SentState } from "../../../src/messaging/index.js";
import { listenOn } from "../../support/loopback.js";
import type { Decision, Fault } from "../../support/lossy/decide-fault.js";
import { type LossyProxy, startLossyProxy } from "../../support/lossy-proxy.js";
import type { ServiceProcess, ServiceProcesses } from "../../support/service-processes.js";
import type { ChildArguments } from "./child-setup.js";

/** The database of one service. */
export interface Side {
  readonly url: string;
  readonly schema?: string | undefined;
  query(sql: string): Promise<readonly Readonly<Record<string, unknown>>[]>;
}

type Proxy = LossyProxy<{ readonly port: number }>;

export interface TwoServices {
  readonly orders: ServiceProcess;
  readonly inventory: ServiceProcess;
  readonly points: Points;
  /** On the way to the inventory. */
  readonly proxy: Proxy;
  /** What happens to the next requests to the inventory; none means no fault. */
  readonly faults: Fault[];
  /** Places an order. Returns the id of its message. */
  place(orderId: string): Promise<string>;
  /** Calls a route of a service. */
  call<T>(service: ServiceProcess, route: string, body?: string): Promise<T>;
  /** Resolves when both outboxes have nothing to send, and nothing is on its way. */
  settled(): Promise<void>;
  /** Rows of the business tables. They have no constraint that could hide one that is there twice. */
  rows(side: "orders" | "inventory", table: string): Promise<readonly string[]>;
  /** The states of the messages in the outbox of the orders. */
  states(): Promise<readonly string[]>;
  tally(): Promise<Tally>;
}

/** What was lost and what was done twice. */
export interface Tally {
  readonly placed: readonly string[];
  /** Orders whose message was never handled. */
  readonly lost: readonly string[];
  readonly processedTwice: readonly string[];
  /** Handled messages without an order. */
  readonly processedWithoutOrder: readonly string[];
  /** Orders whose response was never handled. */
  readonly withoutResponse: readonly string[];
  readonly respondedTwice: readonly string[];
}

/** Nothing lost, nothing twice. */
export const exactlyOnce = (...placed: string[]): Tally => ({
  placed: placed.sort(),
  lost: [],
  processedTwice: [],
  processedWithoutOrder: [],
  withoutResponse: [],
  respondedTwice: [],
});

const childFile = (name: string) => fileURLToPath(new URL(`${name}-child.ts`, import.meta.url));

export interface TwoServicesOptions {
  /** The longest time of one delivery. */
  readonly timeoutMs?: number;
}

/** Starts an order service and an inventory service in two processes, with a proxy on each way. */
export async function startTwoServices(
  processes: ServiceProcesses,
  sides: { readonly orders: Side; readonly inventory: Side },
  atEnd: (end: () => Promise<void>) => void,
  { timeoutMs = 30_000 }: TwoServicesOptions = {},
): Promise<TwoServices> {
  const ends: (() => Promise<void>)[] = [];
  atEnd(async () => {
    for (const end of ends.reverse()) await end();
  });
  const points = await startPoints();
  ends.push(points.close);
  const faults: Fault[] = [];
  const proxyTo = async (decide: () => Decision): Promise<Proxy> => {
    const proxy = await startLossyProxy({
      protocol: "http",
      listen: { port: 0 },
      target: { port: 1 },
      decide,
    });
    ends.push(proxy.close);
    return proxy;
  };
  const toInventory = await proxyTo(() => ({ fault: faults.shift() ?? "none", amount: 0.7 }));
  const toOrders = await proxyTo(() => ({ fault: "none", amount: 0 }));

  const start = async (name: "orders" | "inventory", own: Proxy, peer: Proxy): Promise<ServiceProcess> => {
    const { url, schema } = sides[name];
    const args: ChildArguments = {
      url,
      schema,
      peer: `http://127.0.0.1:${peer.address.port}/_rf/receive`,
      points: points.url,
      timeoutMs,
    };
    const service = await processes.start(childFile(name), [JSON.stringify(args)]);
    ends.push(service.kill);
    own.target = { port: Number(new URL(service.address).port) };
    return service;
  };
  const inventory = await start("inventory", toInventory, toOrders);
  const orders = await start("orders", toOrders, toInventory);

  const call: TwoServices["call"] = async <T>(service: ServiceProcess, route: string, body = "") => {
    const response = await fetch(new URL(route, service.address), { method: "POST", body });
    if (!response.ok) throw new Error(`${route} returned ${response.status}.`);
    return (await response.json()) as T;
  };
  const inSchema = (side: Side, table: string) =>
    side.schema === undefined ? table : `${side.schema}.${table}`;
  const rows: TwoServices["rows"] = async (name, table) => {
    const found = await sides[name].query(`select id from ${inSchema(sides[name], table)}`);
    return found.map(({ id }) => String(id)).sort();
  };

  return {
    orders,
    inventory,
    points,
    proxy: toInventory,
    faults,
    call,
    place: (orderId) => call(orders, "/place", orderId),
    async settled() {
      const open = async (service: ServiceProcess) => {
        const { Pending, Sending } = await call<Record<SentState, number>>(service, "/stats");
        return Pending + Sending;
      };
      const both = async () => [await open(orders), await open(inventory)];
      await expect.poll(both, { timeout: 45_000, interval: 20 }).toEqual([0, 0]);
      await Promise.all([toInventory.idle(), toOrders.idle()]);
    },
    rows,
    async states() {
      const { orders: side } = sides;
      const view = side.schema === undefined ? "messages_outboxSent" : "messages_outbox_sent";
      const found = await side.query(`select state as shown from ${inSchema(side, view)}`);
      return found.map(({ shown }) => String(shown)).sort();
    },
    async tally() {
      const placed = await rows("orders", "orders");
      const handled = await rows("inventory", "reservations");
      const responses = await rows("orders", "responses");
      return {
        placed,
        lost: missing(placed, handled),
        processedTwice: repeated(handled),
        processedWithoutOrder: missing(handled, placed),
        withoutResponse: missing(placed, responses),
        respondedTwice: repeated(responses),
      };
    },
  };
}

const missing = (wanted: readonly string[], found: readonly string[]) =>
  wanted.filter((one) => !found.includes(one));
const repeated = (all: readonly string[]) => all.filter((one, i) => all.indexOf(one) !== i);

/** Named points in other processes. A process that comes to a held point stops there until it is released or killed. */
interface Points {
  readonly url: string;
  /** Resolves when a process has stopped at the point. Later ones stop there as well. */
  hold(name: string): Promise<void>;
  /** How often a process has come to the point. */
  passed(name: string): number;
  /** Lets everybody go on. No point is held any more. */
  release(): void;
  close(): Promise<void>;
}

async function startPoints(): Promise<Points> {
  const held = new Map<string, () => void>();
  const stopped = new Set<ServerResponse>();
  const counts = new Map<string, number>();
  const server = createServer((request, response) => {
    const name = decodeURIComponent(request.url!.slice(1));
    counts.set(name, (counts.get(name) ?? 0) + 1);
    const reached = held.get(name);
    if (reached === undefined) return void response.end();
    stopped.add(response);
    reached();
  });
  const { port } = await listenOn(server, { port: 0 });
  return {
    url: `http://127.0.0.1:${port}`,
    hold: (name) =>
      new Promise((resolve) => {
        held.set(name, resolve);
      }),
    passed: (name) => counts.get(name) ?? 0,
    release() {
      held.clear();
      for (const response of stopped) response.end();
      stopped.clear();
    },
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}
