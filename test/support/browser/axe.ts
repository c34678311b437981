import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";

const file = fileURLToPath(new URL("../../../node_modules/axe-core/axe.min.js", import.meta.url));

interface Violation {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

/** Brings axe-core into the page, where it stays until another page is loaded. */
export async function loadAxe(page: Page): Promise<void> {
  await page.evaluate(await readFile(file, "utf8"));
}

/** What axe-core finds serious or critical on the page as it is. */
export async function seriousViolations(page: Page): Promise<readonly string[]> {
  const found: readonly Violation[] = await page.evaluate(
    'axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => violations)',
  );
  return found
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes[0]!.html} ${nodes[0]!.failureSummary}`);
}
