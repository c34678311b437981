import type { Reporter, TestModule } from "vitest/node";

/** Names every suite that did not run, and closes with one line that counts all tests. */
export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const counts = { passed: 0, failed: 0, skipped: 0 };
    const skippedSuites = new Map<string, number>();
    for (const module of modules) {
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        counts[state === "pending" ? "skipped" : state]++;
        if (state !== "skipped") continue;
        const suite = test.fullName.split(" > ")[0]!;
        skippedSuites.set(suite, (skippedSuites.get(suite) ?? 0) + 1);
      }
    }
    for (const [suite, count] of skippedSuites) console.log(`skipped: ${suite} (${count} tests)`);
    console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
  }
}
