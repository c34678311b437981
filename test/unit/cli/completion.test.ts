import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { exitCodes } from "../../../src/cli/command.js";
import { commands } from "../../../src/cli/run.js";
import { cli } from "../../support/cli.js";

const run = promisify(execFile);

/** What a real bash offers for the last of these words. */
async function offered(...words: string[]): Promise<readonly string[]> {
  const { out } = await cli("completion", "bash");
  const script = `set -u
${out}
complete -p oncebox >&2
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_oncebox
printf '%s\\n' "\${COMPREPLY[@]-}"`;
  const { stdout, stderr } = await run("bash", ["--norc", "-c", script, "bash", "oncebox", ...words]);
  expect(stderr).toBe("complete -o default -F _oncebox oncebox\n");
  return stdout.split("\n").filter((line) => line !== "");
}

describe("shell completion", () => {
  it("ADD-07 bash completes commands, their first words and their options", async () => {
    expect(await offered("")).toEqual(commands.map(({ name }) => name));
    expect(await offered("d")).toEqual(["dev", "dispatch", "dead", "doctor"].sort(byTable));
    expect(await offered("dead", "")).toEqual([
      "list",
      "groups",
      "show",
      "replay",
      "discard",
      "archive",
      "edit",
      "operations",
    ]);
    expect(await offered("dead", "re")).toEqual(["replay"]);
    expect(await offered("dead", "replay", "--dr")).toEqual(["--dry-run"]);
    expect(await offered("status", "--max")).toEqual(["--max-age", "--max-dead"]);
    expect(await offered("dead", "list", "--queue", "in")).toEqual(["inbox"]);
    expect(await offered("list", "--state", "r")).toEqual(["retrying", "running", "replaced"]);
    expect(await offered("init", "a")).toEqual(["aws", "azure"]);
    expect(await offered("status", "--app", "x")).toEqual([]); // then bash completes files
    expect(await offered("nonsense", "--")).toEqual([]);
  });

  it("ADD-07 zsh and fish get every command and every option", async () => {
    const [zsh, fish] = [(await cli("completion", "zsh")).out, (await cli("completion", "fish")).out];
    expect(zsh).toContain("--queue) found=(inbox outbox); _describe value found; return ;;");
    expect(fish).toContain("'__oncebox_is list' -l queue -r -f -a 'inbox outbox' -d ");
    for (const { name, options } of commands) {
      expect(zsh).toMatch(new RegExp(`^ {4}${name}\\) flags=\\(`, "m"));
      expect(fish).toContain(`-n __fish_is_first_token -a ${name} -d '`);
      for (const option of Object.keys(options)) {
        expect(zsh).toContain(`'--${option}:`);
        expect(fish).toContain(`'__oncebox_is ${name}' -l ${option} `);
      }
    }
  });

  it("ADD-07 another shell is refused", async () => {
    expect(await cli("completion", "tcsh")).toMatchObject({
      code: exitCodes.usage,
      err: expect.stringMatching(/bash or zsh or fish/),
    });
  });
});

const byTable = (a: string, b: string): number =>
  commands.findIndex(({ name }) => name === a) - commands.findIndex(({ name }) => name === b);
