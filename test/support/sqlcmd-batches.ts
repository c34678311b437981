/**
 * The batches that sqlcmd would send for a script. It knows the commands that the rendered scripts use, and refuses whatever
 * the two sqlcmds (Microsoft's for ODBC, and the one in Go) or SSMS may read differently.
 */
export function sqlcmdBatches(file: string, readFile: (path: string) => string): readonly string[] {
  const variables = new Map<string, string>();
  const batches: string[] = [];
  let lines: string[] = [];
  let exitsOnError = false;

  const endBatch = () => {
    const batch = lines.join("\n").trim();
    lines = [];
    if (withoutComments(batch).trim() === "") return;
    if (!exitsOnError) throw new Error("A batch stands before :on error exit.");
    batches.push(expanded(batch, variables));
  };
  const run = (command: string, argument: string) => {
    if (command === ":setvar") {
      // one sqlcmd replaces variables when it reads a line, the other at the end of the batch
      if (withoutComments(lines.join("\n")).trim() !== "") throw new Error(":setvar within a batch.");
      const [, name, value] = /^(\w+) +(.+)$/.exec(argument)!;
      variables.set(name!.toLowerCase(), unquoted(value!));
    } else if (command === ":r") readLines(expanded(argument, variables));
    else if (command === ":on" && argument === "error exit") exitsOnError = true;
    else throw new Error(`Not a command of the rendered scripts: ${command} ${argument}`);
  };
  const readLines = (path: string) => {
    const text = readFile(path);
    // behind an empty line at the end, the sqlcmd in Go replaces variables at the wrong place
    if (!/\S\n$/.test(text)) throw new Error(`${path} does not end with one line feed.`);
    for (const line of text.slice(0, -1).split("\n")) {
      const [, command, argument = ""] = /^(:\w+)(?: +(.*))?$/.exec(line) ?? [];
      if (command !== undefined) run(command, argument);
      else if (line === "go") endBatch();
      else if (/^\s*(:|go\b|exit\b|quit\b|reset\b|ed\b|on error\b|!!)/i.test(line))
        throw new Error(`sqlcmd reads this line as a command: ${line}`);
      else lines.push(line);
    }
  };

  readLines(file);
  if (lines.some((line) => line.trim() !== "")) throw new Error(`${file} does not end with go.`);
  return batches;
}

const unquoted = (value: string): string => {
  if (/^"(?:[^"]|"")+"$/.test(value)) return value.slice(1, -1).replaceAll('""', '"');
  if (/[\s"]/.test(value)) throw new Error(`A value with spaces or quotes stands in double quotes: ${value}`);
  return value;
};

const token = /--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'|"(?:[^"]|"")*"|\[(?:[^\]]|\]\])*\]|[\s\S]/g;
const isComment = (text: string) => text.startsWith("--") || text.startsWith("/*");
const withoutComments = (text: string) => (text.match(token) ?? []).filter((one) => !isComment(one)).join("");

/** Variables are replaced within strings and brackets as well. In comments only one sqlcmd does it. */
function expanded(text: string, variables: ReadonlyMap<string, string>): string {
  for (const one of text.match(token) ?? []) {
    if (isComment(one) && one.includes("$(")) throw new Error(`A variable within a comment: ${one}`);
    if (["'", '"', "["].includes(one)) throw new Error(`A quotation is open at the end of ${text}`);
  }
  const result = text.replaceAll(/\$\((\w+)\)/g, (_, name: string) => {
    const value = variables.get(name.toLowerCase());
    if (value === undefined) throw new Error(`The variable ${name} has no value.`);
    return value;
  });
  if (result.includes("$(")) throw new Error(`A variable is left: ${result}`);
  return result;
}
