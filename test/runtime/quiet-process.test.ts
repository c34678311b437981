import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";

/** Runs quiet-child.ts. Returns all that it wrote, and what became of its messages and requests. */
async function runQuietly(mode: "silent" | "default") {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-quiet-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "result.json");
  const program = fileURLToPath(new URL("quiet-child.ts", import.meta.url));
  // Warnings of Node's own are not ours.
  const args = ["--disable-warning=ExperimentalWarning", "--import", "tsx", program, mode, file];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  const written = Promise.all([text(child.stdout), text(child.stderr)]);
  const [code] = await once(child, "exit");
  const [stdout, stderr] = await written;
  return { code, stdout, stderr, result: JSON.parse(await readFile(file, "utf8").catch(() => "null")) };
}

/** One message is handled, all others end: of each kind of failure there was one. */
const services = {
  counts: { Sent: 1, Failed: 9, Expired: 1 },
  statuses: [200, 200, 401, 400, 401],
  handled: ["right", "twice"],
};

it("MSG-15 with logger: false nothing reaches the standard output or the standard error, whatever fails", async () => {
  expect(await runQuietly("silent")).toEqual({
    code: 0,
    stdout: "",
    stderr: "",
    result: {
      services,
      others: { conflict: "conflict", paid: [200, 422], refused: 401, rejected: 401, published: "failed" },
    },
  });
});

it("MSG-15 without a logger the standard error has one warning for each retry, one error for each end, and no failure twice", async () => {
  const { code, stdout, stderr, result } = await runQuietly("default");
  expect({ code, stdout, result }).toEqual({ code: 0, stdout: "", result: { services } });
  const lines = [...stderr.matchAll(/^oncebox: (.*?) \{/gm)].map(([, line]) => line!);
  const count = (line: string) => lines.filter((one) => one === line).length;
  expect(count("Outbox: message send failed")).toBe(8); // one was refused for good at once
  expect(count("Outbox: message permanently failed")).toBe(9);
  expect(count("Outbox: message expired")).toBe(1);
  expect(count("onDead failed")).toBe(10);
  expect([...new Set(lines)].sort()).toEqual([
    "Inbox: HMAC verification failed",
    "Inbox: duplicate detected",
    "Inbox: malformed message refused",
    "Inbox: message not processed",
    "Outbox: message expired",
    "Outbox: message permanently failed",
    "Outbox: message send failed",
    "admin",
    "circuit breaker opened",
    "no handler for this topic",
    "onDead failed",
  ]);
  expect(stderr).not.toContain("a failure of"); // texts of the user's own errors
});
