import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { problemsOfSite } from "../../scripts/docs/dead-links.js";
import { packageEntries } from "../../scripts/docs/package-entries.js";
import { referenceFile } from "../../scripts/docs/sidebar.js";
import { sitePages } from "../../scripts/docs/site-pages.js";
import { loadAxe, seriousViolations } from "../support/browser/axe.js";
import { describeInBrowser } from "../support/browser/start-browser.js";
import { root } from "../support/markdown.js";
import { type FileServer, serveFiles } from "../support/serve-files.js";

const run = promisify(execFile);
const tsx = createRequire(import.meta.url).resolve("tsx/cli");
const base = "/manuals/oncebox/";
const pages = ["index", "getting-started", "webhooks", "runbook", "decisions/index", "reference/index"];

await describeInBrowser("the documentation site, built and served under a base path", (browser) => {
  let folder: string;
  let server: FileServer;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "oncebox-docs-site-"));
    await run(process.execPath, [tsx, "scripts/build-docs.ts", "--base", base, "--out", folder], {
      cwd: root,
      maxBuffer: 1e8,
    });
    server = await serveFiles(folder, base);
  }, 600_000);
  afterAll(async () => {
    await server?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  /** Opens a page in a browser profile of its own, and gathers what must not happen. */
  async function open(path: string, options: BrowserContextOptions = {}) {
    const profile = await browser.newContext({ viewport: { width: 1400, height: 900 }, ...options });
    profile.setDefaultTimeout(20_000);
    const page = await profile.newPage();
    const problems: string[] = [];
    page.on("pageerror", (error) => problems.push(error.message));
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) problems.push(message.text());
    });
    page.on("request", (request) => {
      const to = request.url();
      if (!to.startsWith(server.url) && !to.startsWith("data:")) problems.push(`a request to ${to}`);
    });
    page.on("response", (response) => {
      if (response.status() >= 400) problems.push(`${response.status()} for ${response.url()}`);
    });
    await page.goto(server.url + path);
    await heading(page).waitFor();
    return { page, problems, close: () => profile.close() };
  }
  const heading = (page: Page) => page.getByRole("heading", { level: 1 }).first();

  it("every document and every module of the package is a page", async () => {
    const files = [
      ...sitePages(root).map(({ file }) => file),
      ...packageEntries(root).map((entry) => referenceFile(entry)),
    ];
    expect(files.length).toBeGreaterThan(120);
    for (const file of files) {
      const html = await readFile(join(folder, file.replace(/\.md$/, ".html")), "utf8");
      expect(html, file).toMatch(/<h1[^>]*>[^<]*\w/);
    }
  });

  it("search finds a word of a guide and a function of the reference, and opens what it has found", async () => {
    const { page, problems, close } = await open("index.html");
    const search = async (words: string) => {
      await page.getByRole("button", { name: /^Search/ }).click();
      await page.getByRole("searchbox").fill(words);
    };
    await search("poison message kills");
    await page.getByRole("option").first().waitFor();
    await page.keyboard.press("Escape");
    await search("createInbox");
    await page.getByRole("option").filter({ hasText: "createInbox()" }).first().click();
    await page.waitForURL(/\/manuals\/oncebox\/reference\/oncebox\.html#createinbox$/);
    await page.getByRole("heading", { name: "createInbox()" }).waitFor();
    expect(problems).toEqual([]);
    await close();
  });

  it("a guide opens from the sidebar, and its links lead on", async () => {
    const { page, problems, close } = await open("index.html");
    await page.getByRole("link", { name: "Receive webhooks" }).click();
    await page.waitForURL(/\/manuals\/oncebox\/webhooks\.html$/);
    await expect.poll(() => heading(page).innerText()).toMatch(/^Webhooks/);
    await page.getByRole("link", { name: "All modules" }).click();
    await page.waitForURL(/\/manuals\/oncebox\/reference\/$/);
    await page.getByRole("row", { name: /^oncebox .*\bcreateInbox\b/ }).waitFor();
    await page.getByRole("main").getByRole("link", { name: "oncebox/aws", exact: true }).click();
    await expect.poll(() => heading(page).innerText()).toMatch(/^oncebox\/aws/);
    expect(problems).toEqual([]);
    await close();
  });

  it("it is dark where the reader's machine is, and where the reader chooses it", async () => {
    const paper = (page: Page) => page.evaluate("getComputedStyle(document.body).backgroundColor");
    const dark = await open("index.html", { colorScheme: "dark" });
    const light = await open("index.html", { colorScheme: "light" });
    const colours = [await paper(dark.page), await paper(light.page)];
    expect(colours[0]).not.toBe(colours[1]);
    await light.page.getByRole("switch", { name: /dark theme/ }).click();
    await expect.poll(() => paper(light.page)).toBe(colours[0]);
    expect([...dark.problems, ...light.problems]).toEqual([]);
    await dark.close();
    await light.close();
  });

  it.each(["light", "dark"] as const)("axe-core finds nothing serious: %s", async (colorScheme) => {
    for (const name of [...pages, "reference/service", "reference/webhooks/stripe"]) {
      const { page, problems, close } = await open(`${name}.html`, { colorScheme });
      await loadAxe(page);
      expect(await seriousViolations(page), name).toEqual([]);
      expect(problems).toEqual([]);
      await close();
    }
    const { page, close } = await open("index.html", { colorScheme });
    await page.getByRole("button", { name: /^Search/ }).click();
    await page.getByRole("searchbox").fill("lease");
    await page.getByRole("option").first().waitFor();
    await loadAxe(page);
    expect(await seriousViolations(page), "the search").toEqual([]);
    await close();
  });

  it("links, pictures and scripts that lead nowhere are found, and so would fail the build", async () => {
    expect(problemsOfSite(folder, base)).toEqual([]);
    const tags = [
      `<a href="${base}no-such-page.html">`,
      `<a class="x" href="${base}webhooks.html#no-such-heading">`,
      `<img alt="" src="no-such-picture.png">`,
      `<a href="/elsewhere.html">`,
      `<script src="https://cdn.example/x.js">`,
    ];
    await writeFile(join(folder, "broken.html"), tags.join("\n"));
    expect(problemsOfSite(folder, base)).toEqual([
      `broken.html: ${base}no-such-page.html does not exist`,
      `broken.html: ${base}webhooks.html#no-such-heading has no such heading`,
      "broken.html: no-such-picture.png does not exist",
      `broken.html: /elsewhere.html is outside of ${base}`,
      "broken.html: <script> loads https://cdn.example/x.js from another server",
    ]);
  });
});
