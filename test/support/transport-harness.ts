import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createTransports, type TransportsOptions } from "../../src/messaging/destinations.js";
import { parseAddress, socketPathOf } from "../../src/messaging/transports/address.js";
import { inProcessTransport } from "../../src/messaging/transports/in-process-transport.js";
import { listen } from "../../src/messaging/transports/listen.js";
import { refusalOf } from "../../src/messaging/transports/transport.js";
import type { ContractReceiver, TransportHarness } from "../contract/transports/harness.js";
import { receiverRoute } from "../contract/transports/receiver-route.js";
import { startProxy, startSocketProxy } from "./cuttable-proxy.js";

const pem = (name: string) => readFileSync(fileURLToPath(new URL(`./tls/${name}`, import.meta.url)), "utf8");

/** A certificate for 127.0.0.1 that signs itself. */
export const tls = { cert: pem("server.crt"), key: pem("server.key") };

export const secret = Buffer.from("a secret of both services").toString("base64");

/** A receiver behind a proxy, by the scheme of its address. */
export const networkHarness = (
  scheme: "http" | "https" | "grpc" | "grpcs" | "unix" | "pipe",
  options: Partial<TransportsOptions> = {},
): TransportHarness => ({
  name: `${scheme}:`,
  async open(receive) {
    const { listener, proxy, address } = await (scheme === "unix" || scheme === "pipe"
      ? socketServer(scheme, receive)
      : tcpServer(scheme, receive));
    const client = { tls: { ca: tls.cert } };
    const transports = createTransports({ http: client, grpc: client, ...options });
    const resolved = transports.resolve("inventory", { address });
    return {
      transport: resolved.transport,
      destination: { serviceId: "inventory", address: resolved.address, secrets: [secret] },
      network: proxy,
      stopReceiver: proxy.cut,
      startReceiver: proxy.mend,
      async close() {
        await transports.close();
        await listener.close();
        await proxy.cut();
      },
    };
  },
});

async function tcpServer(scheme: string, receive: ContractReceiver) {
  const fetch = receiverRoute(receive);
  const secure = scheme.endsWith("s") ? { tls } : {};
  const listener = await listen({ address: `${scheme}://127.0.0.1:0`, fetch, ...secure, stopMs: 1_000 });
  const proxy = await startProxy("127.0.0.1", Number(new URL(listener.address).port));
  return { listener, proxy, address: `${scheme}://127.0.0.1:${proxy.port}` };
}

async function socketServer(scheme: "unix" | "pipe", receive: ContractReceiver) {
  const name = `rf-${randomUUID().slice(0, 8)}`;
  const at = (service: string) =>
    scheme === "pipe" ? `pipe://${service}` : `unix://${join(tmpdir(), `${service}.sock`)}`;
  const path = (service: string) => socketPathOf(parseAddress(at(service)));
  const fetch = receiverRoute(receive);
  const listener = await listen({ address: at(`${name}-far`), fetch, stopMs: 1_000 });
  const proxy = await startSocketProxy(path(name), path(`${name}-far`));
  return { listener, proxy, address: at(name) };
}

export const inProcessHarness: TransportHarness = {
  name: "inprocess:",
  async open(receive) {
    const transport = inProcessTransport();
    const receiver = {
      async receive(...call: Parameters<ContractReceiver>) {
        const response = await receive(...call);
        return "refused" in response ? refusalOf(response.refused, "inventory")! : response;
      },
    };
    let stop = transport.serve("inventory", receiver);
    return {
      transport,
      destination: { serviceId: "inventory", address: "inprocess://inventory", secrets: [] },
      stopReceiver: async () => stop(),
      async startReceiver() {
        stop = transport.serve("inventory", receiver);
      },
      async close() {},
    };
  },
};
