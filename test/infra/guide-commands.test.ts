import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { root } from "../support/markdown.js";
import { commonOptions, documentedCommands } from "./documented-commands.js";

interface Call {
  readonly tool: string;
  /** The tool's name and the words after it, up to the first option or value. */
  readonly words: readonly string[];
  readonly options: readonly string[];
}

const tools = Object.keys(commonOptions);

/** The calls in blocks of shell and in code within sentences and tables. */
function callsIn(file: string): readonly Call[] {
  const text = readFileSync(join(root, file), "utf8").replaceAll(/ *\\\n */g, " ");
  const blocks = [...text.matchAll(/```sh\n([\s\S]*?)```/g)].flatMap(([, block]) => block!.split("\n"));
  const inline = [...text.replaceAll(/```[\s\S]*?```/g, "").matchAll(/`([^`]+)`/g)].map(([, code]) =>
    code!.replaceAll(/\s+/g, " "),
  );
  return [...blocks, ...inline].flatMap((line) => {
    // A command within another one is a call of its own.
    const parts = line.replace(/ # .*$/, "").split(/\$\(|\) ?| \\?\| | && |; /);
    return parts.flatMap((part) => {
      const quiet = part.replaceAll(/"[^"]*"|'[^']*'/g, "text").trim();
      const [tool = "", ...rest] = quiet.replace(/^(?:export )?[A-Z_]+=/, "").split(/\s+/);
      if (!tools.includes(tool) || rest.length === 0) return [];
      const end = rest.findIndex((word) => !/^[a-z][a-z0-9-]*$/.test(word));
      const options = rest.filter((word) => /^--?[a-zA-Z]/.test(word)).map((word) => word.split("=")[0]!);
      return [{ tool, words: [tool, ...rest.slice(0, end === -1 ? rest.length : end)], options }];
    });
  });
}

/** The longest documented command that the words begin with: what follows are values. */
function commandOf({ words }: Call): string | undefined {
  for (let count = words.length; count > 0; count--) {
    const name = words.slice(0, count).join(" ");
    if (Object.hasOwn(documentedCommands, name)) return name;
  }
  return undefined;
}

const files = ["docs/deploy-aws.md", "docs/deploy-azure.md", "docs/runbook.md"];

describe("commands of programs that npm does not have", () => {
  it.each([
    ["docs/deploy-aws.md", 25],
    ["docs/deploy-azure.md", 35],
    ["docs/runbook.md", 3],
  ])("FUN-10 %s: each is documented, with its options", (file, atLeast) => {
    const calls = callsIn(file);
    expect(calls.length).toBeGreaterThanOrEqual(atLeast);
    for (const call of calls) {
      const line = `${call.words.join(" ")} ${call.options.join(" ")}`;
      const name = commandOf(call);
      expect(name, line).toBeDefined();
      const known = [...commonOptions[call.tool]!, ...documentedCommands[name!]!.options];
      expect(known, line).toEqual(expect.arrayContaining([...call.options]));
    }
  });

  it("FUN-10 the commands that the deployment's hooks run are documented, too", () => {
    const hooks = readFileSync(join(root, "infra/azure/hooks.mjs"), "utf8");
    const calls = [...hooks.matchAll(/\baz\(("[\s\S]*?)\);/g)].map(([, args]) => args!);
    expect(calls).toHaveLength(4);
    for (const args of calls) {
      const words = [...args.matchAll(/"([a-z-]+)"/g)].map(([, word]) => word!);
      const name = commandOf({ tool: "az", words: ["az", ...words], options: [] });
      expect(name, args).toBeDefined();
      const options = words.filter((word) => word.startsWith("--"));
      expect([...commonOptions.az!, ...documentedCommands[name!]!.options], args).toEqual(
        expect.arrayContaining(options),
      );
    }
  });

  it("every documented command is used, and says where it was found", () => {
    const used = new Set(files.flatMap(callsIn).map(commandOf));
    const ofHooks = [
      "az functionapp keys list",
      "az rest",
      "az role assignment create",
      "az role assignment delete",
    ];
    const unused = Object.keys(documentedCommands).filter(
      (name) => !used.has(name) && !ofHooks.includes(name),
    );
    expect(unused).toEqual([]);
    for (const { from } of Object.values(documentedCommands)) expect(from).toMatch(/^[A-Za-z]+.*: /);
  });
});
