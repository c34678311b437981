import type { PublishedMessage } from "./publisher.js";

/** An upper bound of a message's bytes in a request: payload, headers, and 1 KB for the other fields. */
export const messageSize = (message: PublishedMessage): number =>
  Buffer.byteLength(message.payload) + Buffer.byteLength(JSON.stringify(message.headers ?? "")) + 1_024;
