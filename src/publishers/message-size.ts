import type { PublishedMessage } from "./publisher.js";

/**
 * An upper bound of a message's bytes in a request: payload, headers, and 3 KB for the other fields. Topic and
 * correlation id have at most 255 characters of 3 bytes each, and the topic is sent twice.
 */
export const messageSize = (message: PublishedMessage): number =>
  Buffer.byteLength(message.payload) + Buffer.byteLength(JSON.stringify(message.headers ?? "")) + 3_072;
