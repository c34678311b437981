import { describe } from "vitest";
import { connectionTests } from "./transports/connections.js";
import { deliveryTests } from "./transports/delivery.js";
import { failureTests } from "./transports/failures.js";
import type { TransportHarness } from "./transports/harness.js";

/**
 * What every transport between services must do (MSG-09).
 *
 * @example
 * transportContract({
 *   name: "MyTransport",
 *   async open(receive) {
 *     const server = await startMyServer(receiverRoute(receive));
 *     const { start: startReceiver, stop: stopReceiver } = server;
 *     const destination = { serviceId: "receiver", address: server.address, secrets: [] };
 *     return { transport: myTransport(), destination, startReceiver, stopReceiver, close: stopReceiver };
 *   },
 * });
 */
export function transportContract(harness: TransportHarness): void {
  describe(`messages by ${harness.name}`, () => {
    deliveryTests(harness);
    failureTests(harness);
    connectionTests(harness);
  });
}
