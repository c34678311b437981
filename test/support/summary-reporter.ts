import type { Reporter, TestModule } from "vitest/node";

/** Names what did not run and why, and closes with one line that counts all tests. */
export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const counts = { passed: 0, failed: 0, skipped: 0 };
    const skipped = new Map<string, number>();
    for (const module of modules) {
      for (const test of module.children.allTests()) {
        const result = test.result();
        counts[result.state === "pending" ? "skipped" : result.state]++;
        if (result.state !== "skipped") continue;
        const suite = test.fullName.split(" > ")[0]!;
        const reason = result.note === undefined ? suite : `${suite}: ${result.note}`;
        skipped.set(reason, (skipped.get(reason) ?? 0) + 1);
      }
    }
    for (const [reason, count] of skipped) console.log(`skipped: ${reason} (${count} tests)`);
    console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
  }
}
