import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { npm, run } from "../../infra/packed.js";
import { root } from "../../support/markdown.js";

const folder = join(root, "examples/two-services");

describe("examples/two-services", () => {
  let output: string;

  /** The part of the output that begins with a heading. */
  const part = (heading: string): string =>
    output.split(/\n{2,}/).find((one) => one.startsWith(heading)) ?? "";

  beforeAll(async () => {
    // Rejects when the exit code is not 0.
    ({ stdout: output } = await npm(["start"], folder));
  });

  it("MSG-02 MSG-05 shows a command, its response and a signal", () => {
    expect(part("1.")).toMatch(
      /orders +command: .*order-1\n.*inventory +reserving for order-1 .*\n.*orders +response: order-1 is confirmed/,
    );
    expect(part("2.")).toMatch(/inventory +order-1 has left the house/);
  });

  it("MSG-05 shows a duplicate that is caught", () => {
    const shown = part("3.");
    expect(shown).toMatch(/network +the acknowledgement is lost.*inventory +Inbox: duplicate detected/s);
    expect(shown.match(/reserving for order-2/g)).toHaveLength(1);
    expect(shown.match(/response: order-2 is confirmed/g)).toHaveLength(1);
  });

  it("MSG-16 shows a receiver that is killed and started again, with everything processed once", () => {
    const shown = part("4.");
    expect(shown).toMatch(/reserving for order-5.*KILLED.*started again.*reserving for/s);
    for (let order = 3; order <= 12; order++)
      expect(shown.match(new RegExp(`response: order-${order} is confirmed`, "g"))).toHaveLength(1);
    const summary = [...part("Summary").matchAll(/ (\d+) of (\d+)$/gm)];
    expect(summary).toHaveLength(5);
    for (const [, is, should] of summary) expect(is).toBe(should);
    expect(part("Summary")).toMatch(/Each message was processed exactly once\.\n$/);
  });

  it("type-checks", async () => {
    await run(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", folder]);
  });
});
