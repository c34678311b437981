import { describe, expect, it } from "vitest";
import { sqlcmdBatches } from "../../support/sqlcmd-batches.js";

const start = ":on error exit\n:setvar X one\n";
const batchesOf = (text: string, files: Record<string, string> = {}) =>
  sqlcmdBatches("main", (path) => ({ main: `${start}${text}`, ...files })[path]!);

describe("the reader of sqlcmd's scripts that the tests use", () => {
  it("replaces variables in names and strings, and reads files into an open batch", () => {
    const text = `-- a comment alone is no batch\ngo\nselect N'$(x)' from [$(X)]\n:setvar Y 2\n`;
    expect(() => batchesOf(`${text}go\n`)).toThrow(/:setvar within a batch/);
    expect(
      batchesOf(`begin\n:r $(X).sql\nend\ngo\n:setvar X "t ""w"" o"\nselect '$(X)'\ngo\n`, {
        "one.sql": "  select N'$(x)' from [$(X)];\n",
      }),
    ).toEqual(["begin\n  select N'one' from [one];\nend", `select 't "w" o'`]);
  });

  it.each([
    ["a variable that has no value", "select $(Y)\ngo\n", /Y has no value/],
    ["a variable within a comment", "select 1 -- $(X)\ngo\n", /within a comment/],
    ["a line that is a command by accident", "select 1\nexit\ngo\n", /as a command: exit/],
    ["a command that is not at the start of its line", "select 1\n :r x\ngo\n", /as a command/],
    ["a command that it does not know", ":connect x\n", /Not a command/],
    ["an open quotation", "select 'x\ngo\n", /quotation is open/],
    ["a value with a space that is not quoted", ":setvar Y a b\n", /in double quotes/],
    ["a script that does not end with go", "select 1\n", /end with go/],
    ["a file that ends with an empty line", "go\n\n", /one line feed/],
  ])("refuses %s", (_, text, reason) => {
    expect(() => batchesOf(text)).toThrow(reason);
  });

  it("refuses a batch that could fail unnoticed", () => {
    expect(() => sqlcmdBatches("main", () => "select 1\ngo\n")).toThrow(/on error exit/);
  });
});
