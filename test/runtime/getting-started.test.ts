import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type OwnDatabase, ownDatabase } from "../infra/own-database.js";
import { type PackedPackage, packedPackage } from "../infra/packed.js";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));
const page = await readFile(join(root, "docs/getting-started.md"), "utf8");

interface Block {
  readonly language: string;
  readonly text: string;
  /** The file that the line above the block tells the reader to create. */
  readonly file: string | undefined;
}

const blockPattern = /(?:Create the file `([^`]+)`:\n\n)?```(\w+)\n([\s\S]*?)```/g;
const blocksOf = (section: string): readonly Block[] =>
  [...section.matchAll(blockPattern)].map(([, file, language, text]) => ({
    language: language!,
    text: text!,
    file,
  }));

const sections = page.split("\n## ").slice(1);
const sectionsWith = (isPostgres: boolean) =>
  sections.filter((section) => /^7\. /.test(section) === isPostgres && /^\d/.test(section));

const longestWaitMs = 30_000;

/** Both terminals of the reader, in one folder with one environment. */
function terminals(folder: string, port: number, packed: PackedPackage, postgresUrl: string) {
  let cwd = folder;
  const env: NodeJS.ProcessEnv = { PATH: process.env.PATH, HOME: process.env.HOME, PORT: String(port) };
  let printed = "";
  let app: ChildProcess | undefined;

  /** As `npm install` would put it there, without a registry. */
  const install = async (name: string): Promise<void> => {
    const target = join(cwd, "node_modules", name);
    await mkdir(dirname(target), { recursive: true });
    if (name !== "oncebox") return symlink(join(root, "node_modules", name), target, "junction");
    await run("tar", ["-xzf", packed.tarball, "-C", cwd]);
    await rename(join(cwd, "package"), target);
    await symlink(join(root, "node_modules/zod"), join(cwd, "node_modules/zod"), "junction");
    await mkdir(join(cwd, "node_modules/.bin"));
    await symlink("../oncebox/dist/cli/main.js", join(cwd, "node_modules/.bin/oncebox"));
    await chmod(join(target, "dist/cli/main.js"), 0o755);
  };

  /** A group of its own, so that Ctrl-C reaches what npx starts. */
  const startApp = async (command: string): Promise<void> => {
    await stopApp();
    app = spawn("sh", ["-c", command], { cwd, env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [app.stdout!, app.stderr!])
      stream.on("data", (chunk: Buffer) => {
        printed += chunk.toString();
      });
    await expectPrinted("Ctrl-C stops it.");
  };

  const stopApp = async (): Promise<void> => {
    if (app === undefined || app.exitCode !== null) return;
    const ended = once(app, "exit");
    process.kill(-app.pid!, "SIGINT");
    await ended;
    app = undefined;
  };

  const expectPrinted = async (line: string): Promise<void> => {
    const end = performance.now() + longestWaitMs;
    while (!printed.includes(line) && performance.now() < end) await sleep(20);
    expect(printed).toContain(line);
  };

  const runLine = async (line: string): Promise<void> => {
    const [, name, value] = /^export (\w+)=(.*)$/.exec(line) ?? [];
    if (name !== undefined) env[name] = value!.startsWith("postgres:") ? postgresUrl : value!;
    else if (line.startsWith("cd ")) cwd = join(cwd, line.slice(3));
    else if (line.startsWith("npm install ")) await install(line.slice("npm install ".length));
    else if (line.startsWith("npx oncebox dev")) await startApp(line);
    else {
      const { stdout } = await run("sh", ["-c", line], { cwd, env });
      printed += stdout; // not in one expression: the app may have printed meanwhile
    }
  };

  const runAll = async (text: string): Promise<void> => {
    for (const line of text.trim().split("\n")) await runLine(line);
  };

  /** The counts are those of a moment: the last acknowledgement may follow its log line. */
  const untilStatusShows = async (command: string, expected: string): Promise<void> => {
    const end = performance.now() + longestWaitMs;
    while (!printed.includes(expected) && performance.now() < end) await runAll(command);
  };

  return {
    stop: stopApp,
    async follow(section: string): Promise<void> {
      const blocks = blocksOf(section);
      for (const [index, { language, text, file }] of blocks.entries()) {
        const next = blocks[index + 1];
        if (file !== undefined) await writeFile(join(cwd, file), text);
        else if (language === "sh") {
          printed = "";
          await runAll(text);
          if (text.trim() === "npx oncebox status") await untilStatusShows(text, next!.text);
        } else if (language === "text") {
          for (const line of text.trim().split("\n")) await expectPrinted(line.replace("7071", String(port)));
        } else throw new Error(`The tutorial has a block that no reader would know what to do with: ${text}`);
      }
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  return port;
}

/** A dozen commands, each of which starts npm and Node. */
const timeout = 180_000;

describe("docs/getting-started.md", { timeout }, () => {
  let packed: PackedPackage;
  let postgres: OwnDatabase;
  let folder: string;
  let reader: ReturnType<typeof terminals>;

  beforeAll(async () => {
    [packed, postgres] = await Promise.all([packedPackage(), ownDatabase()]);
    folder = await mkdtemp(join(tmpdir(), "oncebox-tutorial-"));
    reader = terminals(folder, await freePort(), packed, postgres.url);
  });
  afterAll(async () => {
    await reader?.stop();
    await postgres?.drop();
    await packed?.remove();
    await rm(folder, { recursive: true, force: true });
  });

  it("leads from an empty folder to a published message on SQLite", async () => {
    const steps = sectionsWith(false);
    expect(steps).toHaveLength(6);
    for (const step of steps) await reader.follow(step);
  });

  it("leads to the same on PostgreSQL", async () => {
    const steps = sectionsWith(true);
    expect(steps).toHaveLength(1);
    for (const step of steps) await reader.follow(step);
    const [row] = await postgres.run("select Phase, Topic from infra.Outbox");
    expect(row).toMatchObject({ phase: "done", topic: "receipt.send" });
  });
});
