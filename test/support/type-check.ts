import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { root } from "./markdown.js";

const run = promisify(execFile);

/** What the compiler says of all `.mts` files in a folder, however deep, with the project's own settings. Empty when they are right. */
export async function typeErrors(folder: string): Promise<string> {
  const config = {
    extends: join(root, "tsconfig.json"),
    compilerOptions: { allowImportingTsExtensions: true, typeRoots: [join(root, "node_modules/@types")] },
    include: [join(folder, "**/*.mts")],
    exclude: [],
  };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const { stdout } = await run(process.execPath, [tsc, "-p", folder]).catch(
    (error: { stdout: string }) => error,
  );
  return stdout;
}
