import { yieldToEventLoop } from "../../base/wait.js";

/**
 * Lambda freezes the process between invocations. Two ticks of the event loop run everything that fell due meanwhile:
 * closed sockets are noticed and expired idle connections are dropped before the handler takes one from the pool.
 */
export const afterThaw = {
  async before(): Promise<void> {
    await yieldToEventLoop();
    await yieldToEventLoop();
  },
};
