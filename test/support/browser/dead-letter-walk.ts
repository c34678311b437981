import type { Browser } from "playwright-core";
import { expect, vi } from "vitest";
import { omitUndefined } from "../../../src/base/defined.js";
import { operatorsOf } from "../../../src/operators/operators-of.js";
import { openPage, type PageRun } from "./admin-page.js";

/** Puts messages into the inbox and waits until all of them are dead. */
export async function makeDead(
  run: PageRun,
  ids: readonly string[],
  {
    topic = "invoice.paid",
    error = "HTTP 503 from the mail service",
    partitionKey = undefined as string | undefined,
  } = {},
): Promise<void> {
  const { inbox } = run.app;
  const before = await operatorsOf(inbox).countDead();
  run.failWith = error;
  await inbox.enqueue(
    ids.map((messageId) => ({
      source: "stripe",
      messageId,
      topic,
      payload: JSON.stringify({ id: messageId }),
      ...omitUndefined({ partitionKey }),
    })),
  );
  await vi.waitFor(
    async () => expect(await operatorsOf(inbox).countDead()).toBe(before + ids.length),
    60_000,
  );
  run.failWith = undefined;
}

/** See a dead letter on the overview, find it, inspect it, show its payload, replay it, and see it Done. */
export async function walkDeadLetter(browser: Browser, run: PageRun): Promise<void> {
  await makeDead(run, ["evt_walk"]);
  const { page, problems, close } = await openPage(browser, run.url);
  const inbox = page.getByRole("region", { name: "Inbox", exact: true });
  await inbox.getByRole("link", { name: "1", exact: true }).click();

  await page.getByRole("heading", { name: "Dead letters" }).waitFor();
  const group = page.getByRole("region", { name: "By error" }).getByRole("row").nth(1);
  expect(await group.innerText()).toMatch(/1\s+PermanentFailure: HTTP 503 from the mail service/);
  await page.getByRole("link", { name: "stripe/evt_walk" }).click();

  await page.getByRole("heading", { name: "Message", exact: true }).waitFor();
  const attempts = page.getByRole("region", { name: "History of failed attempts" }).getByRole("row");
  expect(await attempts.count()).toBe(2); // the heads of the columns, and one
  expect(await page.content()).not.toContain('"id": "evt_walk"');
  await page.getByRole("button", { name: "Show payload" }).click();
  await page.getByLabel("Payload", { exact: true }).first().waitFor();
  expect(await page.locator("pre").innerText()).toBe('{\n  "id": "evt_walk"\n}');

  await page.getByRole("button", { name: "Replay", exact: true }).click();
  await page.getByText("1 message replayed.").waitFor();
  const summary = page.getByRole("region", { name: "stripe/evt_walk" });
  await summary.getByText("Done", { exact: true }).first().waitFor();
  expect(run.handled.get("evt_walk")).toEqual(['{"id":"evt_walk"}']);
  expect(await operatorsOf(run.app.inbox).countDead()).toBe(0);
  expect(problems).toEqual([]);
  await close();
}
