import { yieldToEventLoop } from "../../base/wait.js";

/**
 * Lambda freezes the process between invocations. Two turns of the event loop let everything that fell due meanwhile
 * happen first: sockets that the other side closed are noticed, and idle connections whose time is up are dropped,
 * before the handler takes one from the pool.
 */
export const afterThaw = {
  async before(): Promise<void> {
    await yieldToEventLoop();
    await yieldToEventLoop();
  },
};
