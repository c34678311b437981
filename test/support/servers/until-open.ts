import { setTimeout as sleep } from "node:timers/promises";

/** Tries again while a server that listens already is still starting; a minute at most. */
export async function untilOpen<T>(open: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await open();
    } catch (error) {
      if (tries === 600) throw error;
      await sleep(100);
    }
  }
}
