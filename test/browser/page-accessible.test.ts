import { afterAll, beforeAll, expect, it } from "vitest";
import { operatorsOf } from "../../src/operators/operators-of.js";
import { openPage, type PageRun, showView, startPageRun } from "../support/browser/admin-page.js";
import { loadAxe, seriousViolations } from "../support/browser/axe.js";
import { makeDead } from "../support/browser/dead-letter-walk.js";
import { describeInBrowser } from "../support/browser/start-browser.js";

const views = [
  "#/",
  "#/dead/inbox",
  "#/dead/outbox",
  "#/messages/inbox",
  "#/message/inbox?source=stripe&messageId=evt_0",
  "#/trace?id=evt_0",
  "#/partitions/inbox",
  "#/pauses",
  "#/tenants",
];

await describeInBrowser("the accessible admin page", (browser) => {
  let run: PageRun;
  beforeAll(async () => {
    run = await startPageRun({ database: "sqlite::memory:", inbox: { deadInPartition: "block" } });
    await makeDead(run, ["evt_0", "evt_1"]);
    await makeDead(run, ["evt_2"], { partitionKey: "customer-1" });
    const behind = { source: "stripe", topic: "invoice.paid", payload: "{}", partitionKey: "customer-1" };
    await run.app.inbox.enqueue([{ ...behind, messageId: "evt_3" }]);
    await operatorsOf(run.app.inbox).pause({ topic: "customer.created" }, { by: "bob" });
    await operatorsOf(run.app.outbox).limit({ topic: "receipt.send", perSecond: 5 }, { by: "bob" });
    await operatorsOf(run.app.inbox).startOperation("replay", { topic: "none" }, { by: "bob" });
  });
  afterAll(() => run.stop());

  it.each(["light", "dark"] as const)(
    "ADD-02 axe-core finds nothing serious in any view: %s",
    async (colorScheme) => {
      const out = await openPage(browser, run.url, { colorScheme, token: null });
      await loadAxe(out.page);
      expect(await seriousViolations(out.page), "signing in").toEqual([]);
      await out.close();

      const { page, problems, close } = await openPage(browser, run.url, { colorScheme });
      await loadAxe(page);
      for (const hash of views) {
        await showView(page, hash);
        if (hash.startsWith("#/message/")) {
          await page.getByRole("button", { name: "Show payload" }).click();
          await page.getByText("Edit and replay").click();
        }
        expect(await seriousViolations(page), hash).toEqual([]);
      }
      await showView(page, "#/dead/inbox");
      await page.getByRole("button", { name: "Discard all…" }).click();
      await page.getByRole("dialog").waitFor();
      expect(await seriousViolations(page), "a dialog").toEqual([]);
      expect(problems).toEqual([]);
      await close();
    },
  );

  it("ADD-02 no view is wider than a phone, and tables become cards", async () => {
    const { page, close } = await openPage(browser, run.url, { viewport: { width: 360, height: 740 } });
    for (const hash of views) {
      await showView(page, hash);
      expect(await page.evaluate("document.documentElement.scrollWidth"), hash).toBeLessThanOrEqual(360);
    }
    await showView(page, "#/dead/inbox");
    const styles = await page.evaluate(`(() => {
      const cell = document.querySelector('td[data-label="Message"]');
      return [getComputedStyle(cell).display, getComputedStyle(cell, "::before").content];
    })()`);
    expect(styles).toEqual(["grid", '"Message"']);
    await close();
  });

  it("ADD-02 a refresh of the overview keeps the focus and open tables", async () => {
    const { page, close } = await openPage(browser, run.url);
    await page.clock.install();
    await showView(page, "#/");
    const inbox = page.getByRole("region", { name: "Inbox", exact: true });
    /** One more message dies, and the page shows the new number at its next refresh. */
    const seeOneMore = async (id: string, dead: string) => {
      await makeDead(run, [id]);
      await page.clock.fastForward(3_100);
      await inbox.getByRole("link", { name: dead, exact: true }).waitFor();
    };
    await inbox.getByRole("link", { name: "3", exact: true }).focus();
    await seeOneMore("evt_more", "4");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("4");
    await page.getByText("As a table").first().focus();
    await page.keyboard.press("Enter");
    await seeOneMore("evt_again", "5");
    expect(
      await page.getByRole("region", { name: "Inbox: messages per 2 min, as a table" }).isVisible(),
    ).toBe(true);
    expect(await page.evaluate("document.activeElement.textContent")).toBe("As a table");
    await close();
  });

  it("ADD-02 a dead letter is replayed with only the keyboard, and the focus is visible", async () => {
    await makeDead(run, ["evt_keys"]);
    const { page, close } = await openPage(browser, run.url);
    /** Presses Tab until the element with this name has the focus. */
    const tabTo = async (name: string): Promise<void> => {
      for (let presses = 0; presses < 80; presses++) {
        await page.keyboard.press("Tab");
        const [focused, outline] = await page.evaluate<[string, string]>(
          `(() => {
            const { activeElement: one } = document;
            return [one.getAttribute("aria-label") ?? one.textContent, getComputedStyle(one).outlineStyle];
          })()`,
        );
        if (focused !== name) continue;
        expect(outline, name).toBe("solid");
        return;
      }
      throw new Error(`Tab does not reach ${name}.`);
    };
    await tabTo("Dead letters");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Dead letters" }).waitFor();
    expect(await page.evaluate("document.activeElement.tagName")).toBe("H1"); // so a screen reader says where it is
    await tabTo("Select stripe/evt_keys");
    await page.keyboard.press("Space");
    await page.getByText(/1 of \d+ selected/).waitFor();
    await tabTo("Replay"); // past the end of the page, and round
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: "Replay 1 message?" }).waitFor();
    await tabTo("Replay 1 message");
    await page.keyboard.press("Enter");
    await page.getByRole("status").getByText("1 message replayed.").waitFor();
    await expect.poll(() => run.handled.has("evt_keys")).toBe(true);
    await close();
  });
});
