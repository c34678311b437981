import type { Envelope } from "../envelope.js";
import type { TransportDestination } from "../transport.js";

/** Makes the signed body of a message, as JSON. Each attempt gets a new one, with a new timestamp. */
export type MessageBody = (envelope: Envelope, destination: TransportDestination) => string;
