import type { Browser } from "playwright-core";
import { afterAll, describe } from "vitest";
import { startBrowser } from "./start-browser.js";

/** Tests in a real browser. Where none starts, they are skipped, and the suite's name says why. */
export async function describeInBrowser(name: string, suite: (browser: Browser) => void): Promise<void> {
  const started = await startBrowser();
  if (typeof started === "string") {
    describe.skip(`${name}, skipped because ${started}`, () => suite(undefined as never));
    return;
  }
  describe(name, () => {
    afterAll(started.stop);
    suite(started.browser);
  });
}
