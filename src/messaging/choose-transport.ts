import type { DestinationOptions } from "./service-options.js";
import type { Transport } from "./transport.js";

/** A direct call within the process: nobody in between could change or forge a message. */
const inProcess = "inprocess:";

export const schemeOf = (address: string): string => new URL(address).protocol;

export const needsSecret = (address: string): boolean => schemeOf(address) !== inProcess;

/** The destination's own transport, or the first one that serves its address. */
export const chooseTransport = (
  { address, transport }: DestinationOptions,
  transports: readonly Transport[],
): Transport | undefined =>
  transport ?? transports.find(({ schemes }) => schemes.includes(schemeOf(address)));
