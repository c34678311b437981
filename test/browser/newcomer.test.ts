import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { openPage } from "../support/browser/admin-page.js";
import { describeInBrowser } from "../support/browser/start-browser.js";
import { startDev } from "../support/start-dev.js";

const app = fileURLToPath(new URL("../../functions/app.ts", import.meta.url));

await describeInBrowser("npm start", (browser) => {
  it("FUN-11 its link shows the example webhook arrive, be handled, and its receipt leave", async () => {
    const folder = await mkdtemp(join(tmpdir(), "oncebox-newcomer-"));
    const { url, output, stop } = await startDev(["--app", app, "--try"], folder); // as npm start does
    const linkIn = (text: string) => /the admin page +(\S+)\n/.exec(text)?.[1] ?? "";
    await expect.poll(() => linkIn(output())).toMatch(/\/_oncebox#token=developer:\S+&sample=evt_\w+$/);
    const link = linkIn(output());
    const { page, problems, close } = await openPage(browser, url, { link });
    const story = page.getByRole("region", { name: "The sample webhook" });
    await story
      .getByText("arrived, was handled once although it was sent twice, and its receipt has left")
      .waitFor();
    const steps = await story.locator("ol > li").allInnerTexts();
    expect(steps).toEqual([
      expect.stringMatching(
        /^Inbox\s+stripe\.invoice\.paid\s+stripe\/evt_\w+\s+✓ Done[\s\S]+received.+[\s\S]+handled/,
      ),
      expect.stringMatching(/^Outbox\s+receipt\.send\s+[\w-]+\s+✓ Done[\s\S]+enqueued.+[\s\S]+published/),
    ]);
    await story.getByRole("button", { name: "Hide" }).click();
    await story.waitFor({ state: "detached" });
    expect(page.url()).toBe(`${url}/_oncebox#/`);
    expect(problems).toEqual([]);
    await close();
    expect(await stop()).toBe(0);
    await rm(folder, { recursive: true, force: true });
  });
});
