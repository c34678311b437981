import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { keyText } from "../../src/admin/page/key-text.js";
import { createInbox } from "../../src/inbox/inbox.js";
import { operatorsOf } from "../../src/operators/operators-of.js";
import { createOutbox } from "../../src/outbox/outbox.js";
import { newOwnerToken } from "../../src/queue/leases.js";
import { migrate } from "../../src/sql/migrate.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { adminToken, type StartedAdmin, startAdmin } from "../support/admin/start-admin.js";
import { openPage, showView } from "../support/browser/admin-page.js";
import { describeInBrowser } from "../support/browser/start-browser.js";

/** Markup that would set `hacked` if it were ever parsed; the number tells fields apart. */
const markup = (field: string) =>
  `${field}"'><img src=x onerror=hacked=1><svg onload=hacked=1><script>hacked=1</script>{{hacked}}`;

const tenant = markup("tenant");
const names = { source: markup("source"), messageId: markup("id"), topic: markup("topic") };
const content = {
  correlationId: markup("correlation"),
  partitionKey: markup("partition"),
  headers: { [markup("header")]: markup("value") },
  payload: markup("payload"),
};
const error = markup("error");

await describeInBrowser("the safety of the admin page", (browser) => {
  const db = openSqlite({ file: ":memory:" });
  const inbox = createInbox(db, { deadInPartition: "block", processedBy: markup("done") });
  const outbox = createOutbox(db);
  let admin: StartedAdmin;
  beforeAll(async () => {
    await migrate(db);
    await inbox.enqueue([
      { ...names, ...content },
      { ...names, ...content, messageId: "second" },
    ]);
    const owner = newOwnerToken();
    const [first] = await inbox.claim({ owner });
    await inbox.fail(owner, [first!], error);
    const operators = operatorsOf(inbox);
    await operators.startOperation("discard", { topic: names.topic, error }, { by: markup("operator") });
    await inbox.enqueue([{ source: "s", messageId: "done", topic: "t", payload: "" }]);
    await inbox.ack(owner, await inbox.claim({ owner }));
    await outbox.enqueue([{ ...content, topic: names.topic }]);
    await operators.pause({ topic: names.topic }, { by: markup("by") });
    await inbox.recordUnhandled([{ topic: markup("unhandled"), messages: 1 }]);
    const stores = { inbox, outbox };
    admin = await startAdmin({
      tenants: { list: async () => [tenant], find: async (id) => (id === tenant ? stores : undefined) },
    });
  });
  afterAll(async () => {
    await admin.close();
    await db.close();
  });

  const injected = (page: Page) =>
    page.evaluate(
      '[typeof hacked, document.querySelectorAll("img, iframe, body script, [onload], [onerror]").length]',
    );

  /** The visible text and the values of controls. */
  const shown = (page: Page): Promise<string> =>
    page.evaluate(
      '[document.body.innerText, ...[...document.querySelectorAll("input, textarea, option")].map((one) => one.value)].join("\\n")',
    );

  it("ADD-02 markup in every field stays text, in every view", async () => {
    const { page, problems, close } = await openPage(browser, admin.url);
    await page.getByRole("heading", { name: "Tenants" }).waitFor(); // before one is chosen there is nothing else to see
    await page.getByLabel("Tenant", { exact: true }).selectOption(tenant);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    const key = new URLSearchParams({ source: names.source, messageId: names.messageId });
    const id = new URLSearchParams({ id: content.correlationId });
    const views: readonly (readonly [hash: string, texts: readonly string[]])[] = [
      ["#/", [tenant, names.topic, markup("unhandled")]],
      ["#/dead/inbox", [keyText(names), names.topic, error]],
      ["#/dead/inbox", [markup("operator"), `topic: ${names.topic}`]],
      ["#/messages/inbox", [keyText(names), names.topic, error]],
      [
        `#/message/inbox?${key}`,
        [...Object.values(names), error, content.correlationId, content.partitionKey],
      ],
      [`#/trace?${id}`, [names.topic, error]],
      ["#/partitions/inbox", [content.partitionKey, names.topic, error]],
      ["#/messages/outbox", [names.topic]],
      ["#/message/inbox?source=s&messageId=done", [markup("done")]],
      ["#/pauses", [names.topic, markup("by")]],
      ["#/tenants", [tenant]],
    ];
    for (const [hash, texts] of views) {
      await showView(page, hash);
      for (const text of texts) await expect.poll(() => shown(page), { message: hash }).toContain(text);
      expect(await injected(page), hash).toEqual(["undefined", 0]);
    }
    await showView(page, `#/message/inbox?${key}`);
    await page.getByRole("button", { name: "Show payload" }).click();
    await page.getByText("Edit and replay").click();
    for (const text of [content.payload, ...Object.entries(content.headers).flat()])
      expect(await shown(page)).toContain(text);
    expect(await injected(page)).toEqual(["undefined", 0]);
    await showView(page, `#/dead/inbox?${new URLSearchParams({ topic: names.topic })}`);
    await page.getByRole("button", { name: "Replay all…" }).click();
    await page.getByRole("dialog").getByText("1 message matches").waitFor();
    expect(await shown(page)).toContain(`topic: ${names.topic}`);
    expect(await injected(page)).toEqual(["undefined", 0]);
    expect(problems).toEqual([]);
    await close();
  });

  it("ADD-02 without the token nothing is asked for and nothing shown; a wrong one is refused", async () => {
    const { page, close } = await openPage(browser, admin.url, { token: null });
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    await page.evaluate('location.hash = "#/dead/inbox"');
    expect(await page.getByRole("heading").allInnerTexts()).toEqual(["Sign in to oncebox"]);
    expect(asked).toEqual([]);
    await page.getByLabel("Admin token").fill("mallory:wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").getByText("The token is not accepted.").waitFor();
    expect(await page.getByRole("heading").allInnerTexts()).toEqual(["Sign in to oncebox"]);
    expect(await page.evaluate("sessionStorage.length")).toBe(0);
    await close();
  });

  it("ADD-02 who signs in by name is recorded, the token leaves the address, and signing out forgets it", async () => {
    const { page, close } = await openPage(browser, admin.url);
    expect(page.url()).not.toContain("token");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in to oncebox" }).waitFor();
    expect(await page.evaluate("[sessionStorage.length, localStorage.length, document.cookie]")).toEqual([
      0,
      0,
      "",
    ]);
    await page.getByLabel("Admin token").fill(adminToken);
    await page.getByLabel("Your name").fill("Ada Løve");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("button", { name: /^Open the tenant/ }).click();
    await page.getByRole("link", { name: "Pauses", exact: true }).first().click();
    const form = page.getByRole("form", { name: "Limit" });
    await form.getByLabel("Its name").fill("mail.send");
    await form.getByLabel("Messages per second").fill("0.5");
    await form.getByRole("button", { name: "Limit" }).click();
    await page.getByText("Limited: topic mail.send").waitFor();
    expect(await operatorsOf(inbox).controls()).toContainEqual(
      expect.objectContaining({ name: "mail.send", perSecond: 0.5, by: "alice (Ada Løve)" }),
    );
    await close();
  });

  it("ADD-02 a token that is no longer accepted leads back to signing in", async () => {
    const { page, close } = await openPage(browser, admin.url);
    await page.evaluate('sessionStorage.setItem("oncebox-token", "alice:changed")');
    await page.getByRole("link", { name: "Tenants" }).click();
    await page.getByRole("alert").getByText("The token is not accepted.").waitFor();
    expect(await page.getByRole("heading").allInnerTexts()).toEqual(["Sign in to oncebox"]);
    await close();
  });

  it("ADD-02 the policy of the page keeps inline scripts and other servers out", async () => {
    const { page, close } = await openPage(browser, admin.url);
    await page.evaluate(
      'document.head.append(Object.assign(document.createElement("script"), { textContent: "hacked = 1" }))',
    );
    expect(await page.evaluate("typeof hacked")).toBe("undefined");
    expect(await page.evaluate('fetch("http://127.0.0.2:9/").then(() => "sent", () => "kept")')).toBe("kept");
    await close();
  });
});
