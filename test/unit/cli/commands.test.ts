import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Command, exitCodes } from "../../../src/cli/command.js";
import { commands, runCli } from "../../../src/cli/run.js";
import { closeServer, listening } from "../../../src/http/node.js";
import { createInbox, migrate, newOwnerToken } from "../../../src/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { cli } from "../../support/cli.js";
import { commandLinesIn, problemOf } from "../../support/command-lines.js";

let folder: string;
let database: readonly string[];
let app: string;
let request: string;
let github: string;
/** GitHub's API, for a webhook without deliveries. */
const githubApi = createServer((_incoming, outgoing) => {
  outgoing.writeHead(200, { "content-type": "application/json" }).end("[]");
});
beforeAll(async () => {
  await listening(githubApi, { port: 0, host: "127.0.0.1" });
  github = `http://127.0.0.1:${(githubApi.address() as AddressInfo).port}`;
  folder = await mkdtemp(join(tmpdir(), "oncebox-commands-"));
  database = ["--database", `sqlite:${join(folder, "app.db")}`];
  app = join(folder, "app.mjs");
  await writeFile(app, "export default { handlers: { t() {} } };\n");
  request = join(folder, "request.http");
  await writeFile(
    request,
    "POST /webhooks/x HTTP/1.1\nhost: localhost\nx-gitlab-token: a-token-of-the-test\n\n{}",
  );
  const db = openSqlite({ file: join(folder, "app.db") });
  await migrate(db);
  const inbox = createInbox(db);
  await inbox.receive({ source: "s", messageId: "1", topic: "t", payload: "" });
  const owner = newOwnerToken();
  await inbox.fail(owner, await inbox.claim({ owner }), "no");
  await db.close();
});
afterAll(async () => {
  await closeServer(githubApi, 1_000);
  await rm(folder, { recursive: true, force: true });
});

const dryRun = ["--dry-run", "--topic", "t"];
const deadRuns = [
  ["list"],
  ["groups"],
  ["show", "s/1"],
  ["replay", ...dryRun],
  ["discard", ...dryRun],
  ["archive", ...dryRun],
  ["edit", "s/1", "--new-topic", "t2"], // the last one that needs it dead
  ["operations"],
];

/** For each command, command lines that succeed, with --json. */
const runs: Readonly<Record<string, () => readonly (readonly string[])[]>> = {
  init: () => [["aws", join(folder, "new-app")]],
  package: () => [["aws", "--out", join(folder, "archives")]],
  dev: () => [["--port", "0", "--app", app, ...database]],
  migrate: () => [database, ["--print", ...database], ["--print", "--all", ...database]],
  status: () => [database],
  list: () => [database],
  show: () => [["s/1", ...database]],
  dead: () => deadRuns.map((args) => [...args, ...database]),
  trace: () => [["1", ...database]],
  partitions: () => [database],
  pause: () => [["--topic", "t", ...database]],
  resume: () => [["--topic", "t", ...database]], // which has been paused
  limit: () => [["--topic", "t", "--per-second", "5", ...database]],
  doctor: () => [database],
  bench: () => [["--seconds", "0.1", "--concurrency", "1", ...database]],
  dispatch: () => [["--once", "--app", app, ...database]],
  reap: () => [database],
  cleanup: () => [database],
  backup: () => [["--to", join(folder, "backups"), ...database]],
  restore: () => [["--from", join(folder, "app.db"), "--to", join(folder, "restored.db")]],
  listen: () => [["stripe", "--port", "0"]],
  sign: () => [["stripe", "--secret", "whsec_x"]],
  recover: () => [["github", "--repository", "acme/shop", "--hook", "1", "--api-url", github]],
  verify: () => [["--source", "gitlab", "--secret", "a-token-of-the-test", request]],
};

/** Runs the command until its first line. `dev` and `listen` stay until they are stopped. */
async function firstLines(args: readonly string[]): Promise<{ code: number; lines: readonly string[] }> {
  const stop = new AbortController();
  const lines: string[] = [];
  const code = await runCli(args, {
    env: { GITHUB_TOKEN: "a-token-of-the-test" },
    isInteractive: false,
    out: (line) => {
      lines.push(line);
      if (args[0] === "dev" || args[0] === "listen") stop.abort();
    },
    err: () => {},
    signal: stop.signal,
  });
  return { code, lines };
}

describe.each(commands.map((command): [string, Command] => [command.name, command]))(
  "oncebox %s",
  (name, command) => {
    it("ADD-07 --json prints JSON and nothing else to the standard output, and the exit code is 0", async () => {
      expect(command.options.json).toMatchObject({ type: "boolean" });
      expect(runs[name], "a command line for the table above").toBeDefined();
      for (const args of runs[name]!()) {
        const { code, lines } = await firstLines([name, ...args, "--json"]);
        expect({ args, code }).toEqual({ args, code: exitCodes.ok });
        for (const line of lines) expect(() => JSON.parse(line), line).not.toThrow();
        if (!["list", "partitions"].includes(name) && args[0] !== "operations")
          expect(lines.length).toBeGreaterThan(0);
      }
    });

    it("ADD-07 --help has every option with a description, exit codes, and examples that it accepts", async () => {
      const { code: helped, out } = await cli(name, "--help");
      expect(helped).toBe(exitCodes.ok);
      expect(await cli("help", name)).toMatchObject({ code: exitCodes.ok, out });
      for (const [option, { help }] of Object.entries(command.options)) {
        expect(help, option).toMatch(/\w/);
        expect(out).toContain(help);
        expect(out).toContain(`--${option}`);
      }
      for (const code of Object.values(exitCodes))
        expect(out).toMatch(new RegExp(`^ {2}${code} {2}\\w`, "m"));
      expect(command.examples.length).toBeGreaterThan(0);
      for (const example of command.examples) {
        expect(out).toContain(example);
        const [line, ...more] = commandLinesIn(example);
        expect([line?.[0], more]).toEqual([name, []]);
        expect(await problemOf(line!), example).toBeUndefined();
      }
    });

    it("ADD-07 an unknown option and an argument too many are refused with exit code 2", async () => {
      for (const args of [
        ["--no-such-option"],
        ...(Number.isFinite(command.positionals ?? 0) ? [tooMany()] : []),
      ]) {
        const { code, out, err } = await cli(name, ...args);
        expect([code, out]).toEqual([exitCodes.usage, ""]);
        expect(err).toContain(`Try: oncebox ${name} --help`);
      }
    });
    const tooMany = () => Array.from({ length: (command.positionals ?? 0) + 1 }, () => "x");
  },
);

it("ADD-07 a database that does not respond is exit code 1, and its password is not printed", async () => {
  const away = ["--database", "postgres://nobody:hunter2@127.0.0.1:1/x"];
  const withDatabase = commands.filter(
    ({ name, options }) =>
      "database" in options && "schema" in options && !["dev", "dispatch", "backup"].includes(name),
  );
  expect(withDatabase.length).toBeGreaterThan(6);
  const tried = withDatabase.map(async ({ name }) => {
    const own = runs[name]!()[0]!.filter((word) => !database.includes(word));
    const yes = name === "bench" ? ["--yes"] : [];
    return { name, ...(await cli(name, ...own, ...yes, ...away)) };
  });
  for (const { name, code, out, err } of await Promise.all(tried)) {
    expect({ name, code, out }).toEqual({ name, code: exitCodes.failed, out: "" });
    expect(err).toContain("does not respond");
    expect(err).not.toContain("hunter2");
  }
});
