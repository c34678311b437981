import { PayloadNotJsonError } from "../errors.js";

/**
 * The prototype of messages: `data` is the payload, parsed when it is first read. It is no property of the message itself, so
 * that a copy or a comparison of messages does not parse.
 */
export const messagePrototype = {
  get data(): unknown {
    const { topic, payload } = this as unknown as { readonly topic: string; readonly payload: string };
    const value = parsed(topic, payload);
    Object.defineProperty(this, "data", { value });
    return value;
  },
};

/** JSON.parse's own error quotes the payload. */
export function parsed(topic: string, payload: string): unknown {
  try {
    return JSON.parse(payload);
  } catch {
    throw new PayloadNotJsonError(`The payload of "${topic}" is not JSON.`);
  }
}
