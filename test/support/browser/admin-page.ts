import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { type LocalRun, startLocalRun } from "../../../src/adapters/local/local-run.js";
import { readEnvironment } from "../../../src/config/environment.js";
import { PermanentFailure } from "../../../src/dispatch/settlement.js";
import type { AppDefinition } from "../../../src/index.js";
import { adminToken } from "../admin/start-admin.js";

export interface PageRun extends LocalRun {
  /** Handlers fail as long as it is set. */
  failWith: string | undefined;
  /** The payloads that were handled, by message id. */
  readonly handled: Map<string, string[]>;
}

/** An app as a user would run it, whose handlers can be made to fail. */
export async function startPageRun(definition: AppDefinition): Promise<PageRun> {
  const handled = new Map<string, string[]>();
  const handle = ({ messageId, payload }: { readonly messageId: string; readonly payload: string }) => {
    if (run.failWith !== undefined) throw new PermanentFailure(run.failWith);
    handled.set(messageId, [...(handled.get(messageId) ?? []), payload]);
  };
  const topics = ["invoice.paid", "customer.created"];
  const local = await startLocalRun(
    {
      handlers: Object.fromEntries(topics.map((topic) => [topic, handle])),
      publishers: { "receipt.send": handle },
      admin: { tokens: adminToken },
      ...definition,
    },
    {
      environment: await readEnvironment({ PORT: "0", ONCEBOX_LOG_LEVEL: "silent" }),
      pollMs: 100,
    },
  );
  const run: PageRun = { ...local, failWith: undefined, handled };
  return run;
}

export interface OpenOptions {
  /** Null: without any. */
  readonly token?: string | null;
  /** The address to open, instead of that of the page with the token. */
  readonly link?: string;
  /** The view to go to. */
  readonly hash?: string;
}

export interface OpenedPage {
  readonly page: Page;
  /** What must not happen: errors on the console, violations of the policy, requests to another server. */
  readonly problems: readonly string[];
  close(): Promise<void>;
}

/** Opens the admin page in a browser profile of its own, with the token unless it is null. */
export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions & OpenOptions = {},
): Promise<OpenedPage> {
  const { token = adminToken, hash = "", ...others } = options;
  const { link = `${url}/_oncebox${token === null ? "" : `#token=${token}`}`, ...context } = others;
  const profile = await browser.newContext(context);
  profile.setDefaultTimeout(15_000);
  const page = await profile.newPage();
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) problems.push(message.text());
  });
  page.on("request", (request) => {
    const to = request.url();
    if (!to.startsWith(url) && !to.startsWith("data:")) problems.push(`a request to ${to}`);
  });
  await page.goto(link);
  await page.getByRole("heading", { level: 1 }).waitFor();
  if (hash !== "") await showView(page, hash);
  return { page, problems, close: () => profile.close() };
}

/** Goes to a view by its address and waits until it is shown. */
export async function showView(page: Page, hash: string): Promise<void> {
  await page.evaluate(`
    document.querySelector("h1").textContent = "";
    if (location.hash === ${JSON.stringify(hash)}) dispatchEvent(new Event("hashchange"));
    else location.hash = ${JSON.stringify(hash)};
  `);
  await page.locator("h1:not(:empty)").waitFor();
}
