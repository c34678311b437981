import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { codeBlocks, fromSources, readDocument, root } from "../support/markdown.js";

const run = promisify(execFile);
const document = "docs/inbox-service.md";

/** Each command of the guide that is followed by its answer. */
const steps = [...readDocument(document).matchAll(/```sh\n(curl .*)\n```\n\n```json\n(.*)\n```/g)].map(
  ([, command, answer]) => ({ command: command!, answer: answer! }),
);

/** `oncebox dev` with the guide's app and token, on a free port. */
async function startDev(folder: string, token: string) {
  const [app] = codeBlocks(document, "js");
  await writeFile(join(folder, "app.mts"), fromSources(app!));
  const tsx = join(root, "node_modules/tsx/dist/esm/index.mjs");
  const args = ["--import", tsx, join(root, "src/cli/main.ts"), "dev", "--port", "0", "--app", "app.mts"];
  const env = { ...process.env, INBOX_SERVICE_TOKENS: token };
  const child = spawn(process.execPath, args, { cwd: folder, env, stdio: ["ignore", "pipe", "inherit"] });
  const lines: string[] = [];
  const url = await new Promise<string>((resolve, reject) => {
    createInterface(child.stdout).on("line", (line) => {
      lines.push(line);
      const found = /listens at (\S+),/.exec(line)?.[1];
      if (found !== undefined) resolve(found);
    });
    child.once("exit", () => reject(new Error(lines.join("\n"))));
  });
  return {
    url,
    lines,
    /** Ctrl-C; returns the exit code. */
    async stop() {
      const ended = once(child, "exit");
      child.kill("SIGINT");
      if (child.exitCode === null) await ended;
      return child.exitCode;
    },
  };
}

/** The answer with … where the guide has it. */
const like = (answer: string, pattern: string): string =>
  pattern.includes("…")
    ? answer.replace(/"(leaseId|expiresAt|firstSeen|lastSeen)":"[^"]+"/g, '"$1":"…"')
    : answer;

it("SVC-03 SVC-04 SVC-05 SVC-06 SVC-07 the guide's commands get the guide's answers, from oncebox dev on SQLite", async () => {
  const setup = codeBlocks(document, "sh").join("\n");
  const token = /^export INBOX_SERVICE_TOKENS=(\S+)$/m.exec(setup)![1]!;
  const [, inbox] = /^export INBOX=(\S+)$/m.exec(setup)!;
  const [, auth] = /^export AUTH="(.*)"$/m.exec(setup)!;
  expect(steps.length).toBeGreaterThan(7);
  const folder = await mkdtemp(join(tmpdir(), "oncebox-guide-"));
  const dev = await startDev(folder, token);
  try {
    const env: Record<string, string> = {
      PATH: process.env.PATH!,
      INBOX: inbox!.replace("http://localhost:7071", dev.url),
      AUTH: auth!,
    };
    for (const { command, answer } of steps) {
      const { stdout } = await run("sh", ["-c", command], { env });
      expect(like(stdout, answer), command).toBe(answer);
      env.LEASE = (JSON.parse(stdout) as { leaseId?: string }).leaseId ?? env.LEASE ?? "";
    }
    expect(dev.lines.join("\n")).toContain(
      `curl ${dev.url}/v1/inbox/try-begin -H 'authorization: Bearer YOUR-TOKEN' -d`,
    );
    expect(dev.lines.join("\n")).not.toContain(token);
    expect(await dev.stop()).toBe(0);
  } finally {
    await dev.stop();
    await rm(folder, { recursive: true, force: true });
  }
});

it("SVC-07 without a token oncebox dev takes the one of all machines, and the command that it prints works", async () => {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-guide-"));
  const dev = await startDev(folder, "");
  try {
    await expect.poll(() => dev.lines.join("\n")).toContain("the inbox service");
    const command = /the inbox service +(curl .*)$/m.exec(dev.lines.join("\n"))![1]!;
    expect((await fetch(`${dev.url}/v1/inbox/a`)).status).toBe(401);
    const { stdout } = await run("sh", ["-c", command.replace("curl ", "curl -s ")]);
    expect(JSON.parse(stdout)).toMatchObject({ status: "Acquired" });
  } finally {
    await dev.stop();
    await rm(folder, { recursive: true, force: true });
  }
});
