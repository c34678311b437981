/**
 * Counts the files of src that one request crosses: `npx tsx scripts/files-crossed.ts [--list]`. A file counts when one of
 * its functions ran between the request and its end. A house with too many doors shows here first.
 */
import { createHmac } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { type Profiler, Session } from "node:inspector/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { createInbox, newOwnerToken } from "../src/index.js";
import { openSqlite } from "../src/sql/sqlite/index.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "oncebox-crossed-"));
const secret = "whsec_files_crossed_0123456789";
Object.assign(process.env, {
  ONCEBOX_DATABASE_URL: `sqlite:${join(folder, "crossed.db")}`,
  STRIPE_WEBHOOK_SECRET: secret,
  ONCEBOX_LOG_LEVEL: "error",
});

const session = new Session();
session.connect();
await session.post("Profiler.enable");
await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });

/** The files whose functions have run since the last call. */
async function crossedFiles(): Promise<string[]> {
  const { result } = await session.post("Profiler.takePreciseCoverage");
  return result
    .filter(({ url }) => url.startsWith("file:") && url.includes("/src/"))
    .filter(({ functions }) => functions.some((one) => !isModule(one) && one.ranges[0]!.count > 0))
    .map(({ url }) => relative(root, fileURLToPath(url.split("?")[0]!)))
    .filter((file) => file.startsWith("src/"))
    .sort();
}

/** The code of a module itself, which runs when it is loaded. It is listed only then, and first. */
const isModule = ({ functionName, ranges }: Profiler.FunctionCoverage): boolean =>
  functionName === "" && ranges[0]!.startOffset === 0;

const report = (name: string, files: Iterable<string>): void => {
  const sorted = [...new Set(files)].sort();
  process.stdout.write(`${name}: ${sorted.length} files\n`);
  if (process.argv.includes("--list")) process.stdout.write(sorted.map((file) => `  ${file}\n`).join(""));
};

const oncebox = async (...args: string[]): Promise<void> => {
  const { runCli } = await import("../src/cli/run.js");
  const lines: string[] = [];
  const terminal = {
    env: process.env,
    isInteractive: false,
    out: (line: string) => void lines.push(line),
    err: (line: string) => void lines.push(line),
    signal: new AbortController().signal,
  };
  const code = await runCli(args, terminal);
  if (code !== 0) throw new Error(`oncebox ${args.join(" ")} exited with ${code}: ${lines.join("\n")}`);
};

const lambdaContext = { getRemainingTimeInMillis: () => 30_000, awsRequestId: "crossed" };

function stripeEvent(id: string, type: string) {
  const body = JSON.stringify({ id, type, data: { object: { id: "in_1" } } });
  const seconds = Math.floor(Date.now() / 1000);
  const signature = createHmac("sha256", secret).update(`${seconds}.${body}`).digest("hex");
  return {
    version: "2.0",
    rawPath: "/webhooks/stripe",
    rawQueryString: "",
    headers: { "content-type": "application/json", "stripe-signature": `t=${seconds},v1=${signature}` },
    requestContext: { http: { method: "POST", path: "/webhooks/stripe", sourceIp: "127.0.0.1" } },
    body,
    isBase64Encoded: false,
  };
}

try {
  await oncebox("migrate");
  const { handler: webhook } = await import("../functions/aws/webhook.js");
  const { handler: dispatch } = await import("../functions/aws/dispatch.js");
  const send = (id: string, type: string) =>
    (webhook as unknown as (event: object, context: object) => Promise<{ statusCode: number }>)(
      stripeEvent(id, type),
      lambdaContext,
    );
  const run = dispatch as unknown as (event: object, context: object) => Promise<unknown>;

  await crossedFiles(); // loading the modules does not count
  for (const [id, which] of [
    ["evt_0", "first request, which opens the app"],
    ["evt_1", "later request"],
  ] as const) {
    const { statusCode } = await send(id, "invoice.paid");
    if (statusCode !== 200 && statusCode !== 202) throw new Error(`The webhook got ${statusCode}.`);
    const toResponse = await crossedFiles();
    report(`${which}: webhook to its 200`, toResponse);
    await run({}, lambdaContext);
    report(`${which}: webhook to its published message`, [...toResponse, ...(await crossedFiles())]);
  }

  await send("evt_2", "no.such.handler");
  const db = openSqlite({ file: join(folder, "crossed.db") });
  const store = createInbox(db);
  const owner = newOwnerToken();
  const claimed = await store.claim({ owner });
  await store.fail(owner, claimed, "failed by scripts/files-crossed.ts");
  await db.close();
  await crossedFiles();
  await oncebox("dead", "replay", "stripe/evt_2");
  report("dead replay", await crossedFiles());
} finally {
  rmSync(folder, { recursive: true, force: true });
}
