import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, expect, inject, it } from "vitest";
import { operatorsOf } from "../../src/operators/operators-of.js";
import { openPage, type PageRun, showView, startPageRun } from "../support/browser/admin-page.js";
import { makeDead, walkDeadLetter } from "../support/browser/dead-letter-walk.js";
import { describeInBrowser } from "../support/browser/start-browser.js";

const idsOf = (name: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${name}_${index}`);

await describeInBrowser("the admin page on SQLite", (browser) => {
  let run: PageRun;
  beforeEach(async () => {
    run = await startPageRun({ database: "sqlite::memory:" });
  });
  afterEach(() => run.stop());

  it("MSG-14 ADD-02 a dead letter is seen, inspected, replayed, and seen Done", () =>
    walkDeadLetter(browser, run));

  it("ADD-02 messages that match a filter are counted first, then replayed at a rate, with progress", async () => {
    await makeDead(run, idsOf("evt", 12));
    await makeDead(run, idsOf("other", 3), { topic: "customer.created", error: "no such customer" });
    const { page, problems, close } = await openPage(browser, run.url, { hash: "#/dead/inbox" });
    await page.getByLabel("Topic").fill("invoice.paid");
    await page.getByRole("button", { name: "Filter" }).click();
    await page.getByText("0 of 12 selected").waitFor();

    await page.getByRole("button", { name: "Replay all…" }).click();
    const dialog = page.getByRole("dialog", { name: "Replay all that match" });
    await dialog.getByText("12 messages match").waitFor();
    expect(await dialog.innerText()).toContain("topic: invoice.paid");
    await page.keyboard.press("Escape");
    expect(await operatorsOf(run.app.inbox).countDead()).toBe(15); // the dry run has changed nothing

    await page.getByRole("button", { name: "Replay all…" }).click();
    await dialog.getByLabel("Messages per second").fill("4");
    await dialog.getByRole("button", { name: "Replay 12 messages" }).click();
    const bar = page.getByRole("progressbar", { name: /Replaying dead messages: \d+ of 12/ });
    await bar.waitFor();
    expect(await bar.getAttribute("max")).toBe("12");
    await page.getByText("12 messages replayed.").waitFor();
    await expect.poll(() => run.handled.size).toBe(12);
    expect(await operatorsOf(run.app.inbox).countDead()).toBe(3);
    const [operation] = await operatorsOf(run.app.inbox).operations();
    expect(operation).toMatchObject({ action: "replay", by: "alice", done: 12 });
    await page.getByText("There are no dead messages here.").waitFor();
    expect(problems).toEqual([]);
    await close();
  });

  it("ADD-02 a replay that was interrupted is resumed, and each message is handled once", async () => {
    await makeDead(run, idsOf("evt", 10));
    const { page, close } = await openPage(browser, run.url, { hash: "#/dead/inbox" });
    await page.getByRole("button", { name: "Replay all…" }).click();
    await page.getByLabel("Messages per second").fill("1");
    await page.getByRole("button", { name: "Replay 10 messages" }).click();
    await page.getByText(/Replaying dead messages: [1-9] of 10/).waitFor();
    await page.reload(); // as if the tab had been closed half-way
    await page.getByText("Operations: 1 unfinished").waitFor();
    expect(await operatorsOf(run.app.inbox).countDead()).toBeGreaterThan(0);
    await page.getByRole("button", { name: "Resume the replay of alice" }).click();
    await page.getByText("10 messages replayed.").waitFor();
    await expect.poll(() => run.handled.size).toBe(10);
    expect([...run.handled.values()].every((payloads) => payloads.length === 1)).toBe(true);
    expect(await operatorsOf(run.app.inbox).operations()).toMatchObject([
      { done: 10, by: "alice", resumedBy: "alice", endedAt: expect.any(Date) },
    ]);
    await showView(page, "#/");
    await showView(page, "#/dead/inbox");
    await page.locator("#operations summary").click();
    await page.getByRole("row", { name: /^Replay alice .* by alice .* 10 of 10/ }).waitFor();
    await close();
  });

  it("ADD-02 selected messages are discarded and archived after a confirmation, and the operator is recorded", async () => {
    await makeDead(run, idsOf("evt", 3));
    const { page, close } = await openPage(browser, run.url, { hash: "#/dead/inbox" });
    for (const [id, action, word] of [
      ["evt_0", "Discard", "discarded"],
      ["evt_1", "Archive", "archived"],
    ] as const) {
      await page.getByLabel(`Select stripe/${id}`).check();
      await page.getByRole("button", { name: action, exact: true }).click();
      await page.getByRole("button", { name: `${action} 1 message` }).click();
      await page.getByText(`1 message ${word}.`).waitFor();
      await page.getByLabel(`Select stripe/${id}`).waitFor({ state: "detached" });
    }
    expect((await run.app.inbox.list({ state: "Dead" })).messages.map(({ messageId }) => messageId)).toEqual([
      "evt_2",
    ]);
    const done = (await operatorsOf(run.app.inbox).operations()).map(
      ({ action, by }) => `${action} by ${by}`,
    );
    expect(done.sort()).toEqual(["archive by alice", "discard by alice"]);
    await showView(page, "#/messages/inbox?state=archived");
    await page.getByRole("row", { name: /^stripe\/evt_1 invoice.paid invoice.paid Archived / }).waitFor();
    await page.getByRole("link", { name: "stripe/evt_1" }).click();
    await page
      .getByRole("region", { name: "stripe/evt_1" })
      .getByText("Archived", { exact: true })
      .first()
      .waitFor();
    await page.getByText("They are in the archive.").waitFor();
    await showView(page, "#/");
    await page.locator("#inbox-Archived").getByText("1").waitFor();
    await close();
  });

  it("ADD-02 a dead letter is edited and replayed as a new message", async () => {
    await makeDead(run, ["evt_edit"]);
    const { page, problems, close } = await openPage(browser, run.url, {
      hash: "#/message/inbox?source=stripe&messageId=evt_edit",
    });
    await page.getByRole("button", { name: "Show payload" }).click();
    await page.getByText("Edit and replay").click();
    await page.getByLabel("Headers").fill("not JSON");
    await page.getByRole("button", { name: "Enqueue the edited message" }).click();
    await page.getByRole("alert").getByText("must be a JSON object").waitFor();
    expect(await operatorsOf(run.app.inbox).countDead()).toBe(1);
    await page.getByLabel("Headers").fill('{"x-edited": "yes"}');
    await page.locator("textarea#edit-payload").fill('{"id":"evt_edit","fixed":true}');
    await page.getByRole("button", { name: "Enqueue the edited message" }).click();
    await page.getByText("This is the new message.").waitFor();
    await page
      .getByRole("region", { name: /^stripe\// })
      .getByText("Done", { exact: true })
      .first()
      .waitFor();
    expect([...run.handled.values()]).toEqual([['{"id":"evt_edit","fixed":true}']]);
    expect(await operatorsOf(run.app.inbox).countDead()).toBe(0);
    expect(problems).toEqual([]);
    await close();
  });

  it("ADD-17 a topic is paused and resumed", async () => {
    const { page, problems, close } = await openPage(browser, run.url, { hash: "#/pauses" });
    await page.getByText("Nothing is paused or limited.").waitFor();
    const form = page.getByRole("form", { name: "Pause" });
    await form.getByLabel("Its name").fill("invoice.paid");
    await form.getByRole("button", { name: "Pause" }).click();
    await page.getByRole("row", { name: /Inbox topic invoice.paid.*Paused/ }).waitFor();
    const message = { source: "stripe", topic: "invoice.paid", payload: "{}" };
    await run.app.inbox.enqueue([{ ...message, messageId: "evt_held" }]);
    await run.app.inbox.enqueue([{ ...message, messageId: "evt_free", topic: "customer.created" }]);
    await expect.poll(() => [...run.handled.keys()]).toEqual(["evt_free"]);
    await showView(page, "#/");
    await page.getByRole("region", { name: "Inbox", exact: true }).getByText("topic invoice.paid").waitFor();

    await showView(page, "#/pauses");
    await page.getByRole("button", { name: "Resume topic invoice.paid of the inbox" }).click();
    await page.getByText("Nothing is paused or limited.").waitFor();
    const changes = page.getByRole("region", { name: "Set and ended" }).getByRole("row");
    await changes.nth(1).getByText("End of pause").waitFor();
    expect(await changes.allInnerTexts()).toEqual([
      expect.stringMatching(/^Queue/),
      expect.stringMatching(/^Inbox\s+End of pause\s+topic: invoice.paid\s+alice/),
      expect.stringMatching(/^Inbox\s+Pause\s+topic: invoice.paid\s+alice/),
    ]);
    await expect.poll(() => [...run.handled.keys()]).toEqual(["evt_free", "evt_held"]);
    expect(problems).toEqual([]);
    await close();
  });
});

await describeInBrowser("the admin page on PostgreSQL", (browser) => {
  it("MSG-14 ADD-02 a dead letter is seen, inspected, replayed, and seen Done", async () => {
    const schema = `page_${randomUUID().slice(0, 8)}`;
    const run = await startPageRun({ database: inject("postgresUrl"), schema });
    await walkDeadLetter(browser, run);
    await run.stop();
  });
});
