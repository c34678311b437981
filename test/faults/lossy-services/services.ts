import { setTimeout as pause } from "node:timers/promises";
import { z } from "zod";
import {
  command,
  createService,
  type DestinationOptions,
  defineMessages,
  type ReceiveContext,
  type ServiceOptions,
  type ServiceSettings,
  signal,
} from "../../../src/messaging/index.js";
import type { Notes } from "./child-options.js";
import type { Tables } from "./tables.js";

/** The messages of one order. They are sent in the transaction that writes the order. */
export const messages = defineMessages({
  OrderApproved: signal(z.object({ order: z.int() })),
  ReserveStock: command(z.object({ order: z.int() }), z.object({ reservation: z.string() })),
});

export const messagesOfOrder = 2;

export const correlationOf = (order: number): string => `order ${order}`;

export const reservationOf = (order: number): string => `shelf ${order * 7}`;

export interface ServiceSetup {
  readonly tables: Tables;
  /** The other service. */
  readonly peer: DestinationOptions;
  readonly transports?: NonNullable<ServiceOptions["transports"]>;
  readonly notes?: Notes;
}

/** What a killed or cut-off service waits for is short, so that a run is. Retries are enough for every fault. */
const settings = {
  retry: { maxRetries: 500, baseMs: 50, maxMs: 500, jitterMs: 50 },
  pollMs: 50,
  concurrency: 20,
  leaseMs: 1_500,
  timeoutMs: 5_000,
  handlerTimeoutMs: 5_000,
} satisfies Partial<ServiceSettings>;

const common = ({ tables, transports, notes }: ServiceSetup, serviceId: string) => ({
  ...settings,
  serviceId,
  db: tables.db,
  messages,
  ...tables.schema,
  ...(transports === undefined ? {} : { transports }),
  breaker: { failures: 5, openMs: 100, maxOpenMs: 500 },
  onDead: () => notes?.add("dead", serviceId),
  metrics: {
    count(name: string) {
      if (name === "rf_inbox_duplicate_count") notes?.add("duplicate", serviceId);
      if (name === "rf_outbox_retry_count") notes?.add("retry", serviceId);
    },
    duration() {},
  },
});

/** Sends both messages of each order, and keeps the responses. */
export const createOrders = (setup: ServiceSetup) =>
  createService({
    ...common(setup, "orders"),
    destinations: { inventory: setup.peer },
    onResponse: {
      async ReserveStock({ reservation }, { tx, correlationId }) {
        const order = Number(correlationId?.split(" ")[1]);
        await setup.tables.enter(tx, { what: reservation, order, correlation: String(correlationId) });
      },
    },
  });

/** Keeps what it receives, and responds to commands. */
export const createInventory = (setup: ServiceSetup) => {
  const received =
    (what: string) =>
    async ({ order }: { order: number }, { tx, correlationId }: ReceiveContext) => {
      await setup.tables.enter(tx, { what, order, correlation: String(correlationId) });
      return { reservation: reservationOf(order) };
    };
  return createService({
    ...common(setup, "inventory"),
    destinations: { orders: { ...setup.peer, endpoints: ["OrderApproved", "ReserveStock"] } },
    receive: { OrderApproved: received("OrderApproved"), ReserveStock: received("ReserveStock") },
  });
};

/** Orders that may be on their way at once. A longer backlog would only be put off, again and again, by the circuit breaker. */
const maxOpenOrders = 100;
const pauseMs = 20;

/** Places orders, from the one after the last that was committed, as fast as responses come in. */
export async function placeOrders(
  orders: ReturnType<typeof createOrders>,
  tables: Tables,
  count: number,
): Promise<void> {
  let placed = await tables.lastOrder();
  let responses = (await tables.count()) - placed;
  while (placed < count) {
    if (placed - responses >= maxOpenOrders) {
      await pause(pauseMs);
      responses = (await tables.count()) - placed;
      continue;
    }
    const order = placed + 1;
    const correlationId = correlationOf(order);
    await orders.transaction(async (tx) => {
      await tables.enter(tx, { what: "placed", order, correlation: correlationId });
      await orders.send.OrderApproved("inventory", { order }, { tx, correlationId });
      await orders.send.ReserveStock("inventory", { order }, { tx, correlationId });
    });
    placed = order;
  }
}
