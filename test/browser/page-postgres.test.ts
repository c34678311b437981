import { randomUUID } from "node:crypto";
import { inject, it } from "vitest";
import { startPageRun } from "../support/browser/admin-page.js";
import { walkDeadLetter } from "../support/browser/dead-letter-walk.js";
import { describeInBrowser } from "../support/browser/start-browser.js";

await describeInBrowser("the admin page on PostgreSQL", (browser) => {
  it("MSG-14 ADD-02 a dead letter is seen, inspected, replayed, and seen Done", async () => {
    const schema = `page_${randomUUID().slice(0, 8)}`;
    const run = await startPageRun({ database: inject("postgresUrl"), schema });
    await walkDeadLetter(browser, run);
    await run.stop();
  });
});
