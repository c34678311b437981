import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { LoopbackAddress } from "../../support/loopback.js";
import { decideFault, faults } from "../../support/lossy/decide-fault.js";
import type { Outcome } from "../../support/lossy/line.js";
import { startLossyProxy } from "../../support/lossy-proxy.js";
import type { ServiceProcesses } from "../../support/service-processes.js";
import { type BothChildOptions, readNotes, type ServiceChildOptions } from "./child-options.js";
import type { Place } from "./tables.js";

export type ServiceName = "orders" | "inventory";
export type OfBoth<T> = Readonly<Record<ServiceName, T>>;

export interface StagePlan {
  readonly places: OfBoth<Place>;
  /** How many orders are placed. */
  readonly orders: number;
  readonly seed: string;
  /** An empty folder, for sockets. */
  readonly folder: string;
  /** A file for what the processes count. */
  readonly notes: string;
  readonly processes: ServiceProcesses;
  readonly atEnd: (stop: () => Promise<void>) => void;
}

/** Both services, running, with what loses their messages between them. */
export interface Stage {
  readonly kills: OfBoth<number>;
  /** What happened to the calls between them so far. */
  readonly outcomes: Readonly<Record<Outcome, number>>;
  /** Resolves when no call is on its way, late duplicates included. */
  idle(): Promise<void>;
}

const bothChild = fileURLToPath(new URL("./both-child.ts", import.meta.url));

/** One process with both services: a kill ends both. */
export async function inProcessStage(plan: StagePlan): Promise<Stage> {
  const { places, orders, notes, seed, processes } = plan;
  const options: BothChildOptions = { places, orders, notes, seed };
  const both = await processes.start(bothChild, [JSON.stringify(options)]);
  return {
    get kills() {
      return { orders: both.kills, inventory: both.kills };
    },
    get outcomes() {
      const noted = readNotes(notes);
      const names: readonly Outcome[] = [...faults, "none", "away"];
      return Object.fromEntries(names.map((name) => [name, noted("outcome", name)])) as Record<
        Outcome,
        number
      >;
    },
    async idle() {}, // what is on its way ends with the process
  };
}

export type NetworkScheme = "http" | "grpc" | "unix";

const serviceChild = fileURLToPath(new URL("./service-child.ts", import.meta.url));
/** Until the service has started that the proxy stands before. */
const nowhere: LoopbackAddress = { port: 1 };

/** Two processes. What one sends to the other goes through a proxy, on both ways. */
export async function networkStage(scheme: NetworkScheme, plan: StagePlan): Promise<Stage> {
  const { places, orders: count, seed, folder, notes, processes, atEnd } = plan;

  const proxyBefore = async (service: ServiceName, target: LoopbackAddress) => {
    const faultPlan = { seed: `${seed} to ${service}` };
    const proxy = await startLossyProxy<LoopbackAddress>({
      protocol: scheme === "grpc" ? "grpc" : "http",
      listen: scheme === "unix" ? { path: join(folder, `${service}-proxy.sock`) } : { port: 0 },
      target,
      decide: (index) => decideFault(faultPlan, index),
    });
    atEnd(proxy.close);
    return { proxy, address: addressAt(scheme, proxy.address) };
  };

  const start = (service: ServiceName, peer: string) => {
    const listenAt = addressAt(scheme, scheme === "unix" ? { path: join(folder, service) } : { port: 0 });
    const place = places[service];
    const options: ServiceChildOptions = { service, place, peer, listenAt, orders: count, notes };
    return processes.start(serviceChild, [JSON.stringify(options)]);
  };

  const toOrders = await proxyBefore("orders", nowhere);
  const inventory = await start("inventory", toOrders.address);
  const toInventory = await proxyBefore("inventory", targetOf(inventory.address));
  const orders = await start("orders", toInventory.address);
  toOrders.proxy.target = targetOf(orders.address);
  const proxies = [toOrders.proxy, toInventory.proxy];

  return {
    get kills() {
      return { orders: orders.kills, inventory: inventory.kills };
    },
    get outcomes() {
      const sum = (name: Outcome) => proxies.reduce((total, { counts }) => total + counts[name], 0);
      const names: readonly Outcome[] = [...faults, "none", "away"];
      return Object.fromEntries(names.map((name) => [name, sum(name)])) as Record<Outcome, number>;
    },
    async idle() {
      await Promise.all(proxies.map((proxy) => proxy.idle()));
    },
  };
}

function addressAt(scheme: NetworkScheme, at: LoopbackAddress): string {
  if ("path" in at) return `unix://${at.path}`;
  return scheme === "grpc" ? `grpc://127.0.0.1:${at.port}` : `http://127.0.0.1:${at.port}/_rf/receive`;
}

function targetOf(address: string): LoopbackAddress {
  const { protocol, pathname, port } = new URL(address);
  return protocol === "unix:" ? { path: pathname } : { port: Number(port) };
}
