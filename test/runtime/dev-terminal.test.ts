import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { dropExperimentalWarnings, runCli } from "../../src/cli/run.js";
import { startDev } from "../support/start-dev.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "oncebox-terminal-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Its handler says that it has begun, and does not end. */
const slowApp = `export default {
  sources: { stripe: { scheme: "stripe", secrets: { from: "env", name: "STRIPE_WEBHOOK_SECRET" } } },
  handlers: { "stripe.invoice.paid": () => new Promise((end) => (console.log("begun"), setTimeout(end, 600_000))) },
};\n`;

/** What `dev --try` prints until the example was sent twice. */
async function printed(columns: number | undefined, ...args: string[]): Promise<readonly string[]> {
  const lines: string[] = [];
  const stopping = new AbortController();
  const app = join(root, "functions/app.ts");
  const running = runCli(
    ["dev", "--port", "0", "--try", "--app", app, "--database", "sqlite::memory:", ...args],
    {
      env: {},
      isInteractive: columns !== undefined,
      columns,
      out: (line) => void lines.push(line),
      err: (line) => void lines.push(line),
      signal: stopping.signal,
    },
  );
  await expect.poll(() => lines.join("\n"), { timeout: 20_000 }).toMatch(/sends it again/);
  stopping.abort();
  expect(await running).toBe(0);
  return lines;
}

describe("oncebox dev and its terminal", () => {
  it("FUN-11 prints readable lines on a terminal, and JSON to a file or another program", async () => {
    const readable = /^\d\d:\d\d:\d\d\.\d{3} info {2}webhook {2}.*source=stripe/;
    const onTerminal = await printed(80);
    expect(onTerminal.filter((line) => line.startsWith("{"))).toEqual([]);
    expect(onTerminal).toEqual(expect.arrayContaining([expect.stringMatching(readable)]));
    for (const lines of [await printed(undefined), await printed(80, "--json")]) {
      const webhooks = lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
      expect(webhooks).toEqual(expect.arrayContaining([expect.objectContaining({ message: "webhook" })]));
    }
  });

  it("FUN-11 a second Ctrl-C ends it at once; npm's copy of the first does not", async () => {
    const app = join(folder, "slow.mjs");
    await writeFile(app, slowApp);
    const slow = await startDev(["--app", app, "--try"], folder);
    await expect.poll(slow.output, { timeout: 20_000 }).toContain("begun");
    const ended = slow.stop();
    await expect.poll(slow.output, { timeout: 20_000 }).toContain("Stopping.");
    const again = () => {
      slow.child.kill("SIGINT");
      return slow.child.exitCode;
    };
    await expect.poll(again, { timeout: 20_000, interval: 100 }).toBe(130);
    expect(await ended).toBe(130);

    const quick = await startDev(["--app", join(root, "functions/app.ts")], folder);
    quick.child.kill("SIGINT");
    expect(await quick.stop()).toBe(0);
  });

  const hasTerminal = process.platform === "linux" && existsSync("/usr/bin/script");
  it.skipIf(!hasTerminal)(
    "FUN-11 on a real terminal: readable lines, no warnings of Node, and Ctrl-C twice",
    async () => {
      const own = await mkdtemp(join(folder, "terminal-"));
      await writeFile(join(own, "app.mjs"), slowApp);
      const node = [process.execPath, "--import", join(root, "node_modules/tsx/dist/esm/index.mjs")];
      const command = [
        ...node,
        join(root, "src/cli/main.ts"),
        "dev",
        "--port",
        "0",
        "--app",
        "app.mjs",
        "--try",
      ];
      const size = "stty cols 120;";
      const args = ["-qefc", `${size} exec ${command.join(" ")}`, "/dev/null"];
      const terminal = spawn("/usr/bin/script", args, { cwd: own, env: { ...process.env, TERM: "xterm" } });
      let output = "";
      terminal.stdout.on("data", (data) => {
        output += data;
      });
      const ended = once(terminal, "exit");
      await expect.poll(() => output, { timeout: 20_000 }).toContain("begun");
      expect(output).toMatch(/^\d\d:\d\d:\d\d\.\d{3} info {2}webhook {2}.*source=stripe/m);
      expect(output).not.toMatch(/^\{|ExperimentalWarning/m);
      terminal.stdin.write("\x03");
      await expect.poll(() => output, { timeout: 20_000 }).toContain("Ctrl-C again ends it at once.");
      const again = () => {
        if (terminal.exitCode === null) terminal.stdin.write("\x03");
        return terminal.exitCode;
      };
      await expect.poll(again, { timeout: 20_000, interval: 100 }).toBe(130);
      await ended;
    },
  );

  it("FUN-11 --watch starts again when a file of the app's project changes", async () => {
    const own = await mkdtemp(join(folder, "watched-"));
    const text = (name: string) => `export const name = ${JSON.stringify(name)};\n`;
    await writeFile(join(own, "package.json"), '{ "type": "module" }\n');
    await writeFile(join(own, "name.js"), text("first"));
    await writeFile(
      join(own, "app.js"),
      'import { name } from "./name.js";\nconsole.log("this is", name);\nexport default {};\n',
    );
    const run = await startDev(["--app", "app.js", "--watch"], own);
    expect(run.output()).toContain("this is first");
    await writeFile(join(own, "name.js"), "export const nam");
    await expect.poll(run.output, { timeout: 20_000 }).toContain("It starts again when a file changes.");
    await writeFile(join(own, "name.js"), text("second"));
    await expect.poll(run.output, { timeout: 20_000 }).toMatch(/this is second[\s\S]*listens at/);
    expect(run.output()).toContain("name.js has changed.");
    expect(await run.stop()).toBe(0);
  });

  it("FUN-11 drops Node's warnings about what it uses knowingly, and no other", async () => {
    const emit = process.emitWarning;
    const seen: string[] = [];
    const listener = (warning: Error) => void seen.push(warning.message);
    process.on("warning", listener);
    try {
      dropExperimentalWarnings();
      const sqlite = "SQLite is an experimental feature and might change at any time";
      process.emitWarning(sqlite, "ExperimentalWarning");
      process.emitWarning("another feature", "ExperimentalWarning");
      await expect.poll(() => seen).toEqual(["another feature"]);
    } finally {
      process.off("warning", listener);
      process.emitWarning = emit;
    }
  });
});
