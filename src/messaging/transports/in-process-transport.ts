import { abortable } from "../../base/async.js";
import { InvalidArgumentError } from "../../errors.js";
import { decoded } from "../../http/plain.js";
import { refuseUnknown, requireDuration } from "../../queue/arguments.js";
import type { Envelope } from "../envelope.js";
import { attempt } from "../open-envelope.js";
import { parseAddress, shownAddress } from "./address.js";
import {
  checkedResponse,
  openCalls,
  reasonOf,
  type Transport,
  type TransportCall,
  TransportError,
  type TransportResponse,
  transportDefaults,
} from "./transport.js";

/** The part of a service that is called directly: `service.receiver`. */
export interface InProcessReceiver {
  receive(envelope: Envelope, call: TransportCall): Promise<TransportResponse>;
}

/** Options of the transport inside of one process. */
export interface InProcessOptions {
  /** How long a sender waits for a receiver: 30 s by default. */
  readonly timeoutMs?: number;
}

/** Delivers messages inside of one process. */
export interface InProcessTransport extends Transport {
  /** Makes a receiver known as `inprocess://serviceId`. The returned function takes it away again. */
  serve(serviceId: string, receiver: InProcessReceiver): () => void;
}

/**
 * Calls the receivers of other services in this process. Nothing becomes text and nothing is signed. Payloads are copied
 * by `structuredClone` in both directions: without a copy, a handler that changes its payload would change the sender's
 * object, and freezing it instead would break a sender that goes on using it.
 *
 * @example
 * const inProcess = inProcessTransport();
 * inProcess.serve("inventory", inventory.receiver);
 */
export function inProcessTransport(options: InProcessOptions = {}): InProcessTransport {
  refuseUnknown(options, ["timeoutMs"], "inProcessTransport");
  const { timeoutMs = transportDefaults.timeoutMs } = options;
  requireDuration(timeoutMs, "inProcessTransport: timeoutMs");
  const served = new Map<string, InProcessReceiver>();
  const calls = openCalls(timeoutMs);
  return {
    schemes: ["inprocess:"],
    check: (address) => void serviceIdOf(address),
    serve(serviceId, receiver) {
      if (served.has(serviceId)) {
        throw new InvalidArgumentError(`inprocess://${serviceId} is served already, by another receiver.`);
      }
      served.set(serviceId, receiver);
      return () => void served.delete(serviceId);
    },
    async send(message, { address }, { signal: outer }) {
      const serviceId = serviceIdOf(address);
      const name = `inprocess://${serviceId}`;
      return calls.run(name, outer, async (signal) => {
        const receiver = served.get(serviceId);
        if (receiver === undefined) {
          throw new TransportError(`No receiver serves ${name} in this process.`);
        }
        const copied = copyOf(message.payload);
        if (copied === undefined) {
          const error = `${name}: the payload cannot be copied.`;
          return { acknowledged: false, duplicateDetected: false, permanent: true, error };
        }
        const copy = { ...message, headers: { ...message.headers }, ...copied };
        const receiving = (async () => receiver.receive(copy, { signal }))();
        const response = await abortable(receiving, signal).catch((error: unknown) => {
          // A receiver that throws is a receiver that fails. Its error may quote the payload, so only its code is passed on.
          throw new TransportError(`${name} failed: ${reasonOf(error)}.`);
        });
        const returned = copyOf(response.payload);
        if (returned === undefined) throw new TransportError(`${name}: the response cannot be copied.`);
        return checkedResponse({ ...response, ...returned }, name, message);
      });
    },
    async close() {
      await calls.close();
      served.clear();
    },
  };
}

/** Functions and the like cannot be copied. Returns undefined for them. */
const copyOf = (payload: unknown): { readonly payload: unknown } | undefined =>
  attempt(() => ({ payload: structuredClone(payload) }));

function serviceIdOf(address: string): string {
  const url = parseAddress(address);
  const serviceId = decoded(url.host);
  if (serviceId && url.pathname === "") return serviceId;
  throw new InvalidArgumentError(
    `${shownAddress(url)} is not the address of a service in this process. Write inprocess://serviceId.`,
  );
}
