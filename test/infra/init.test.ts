import { mkdir, readFile, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { root } from "../support/markdown.js";
import { describeInit } from "./init-suite.js";
import { run } from "./packed.js";

/**
 * Needs no registry: the packed package is unpacked where npm would put it, and the app's other packages are linked from
 * this project. `npm run test:network -- init` installs all of them.
 */
describeInit("a new app, created by oncebox init", async (folder, { tarball }) => {
  const { dependencies, devDependencies, scripts } = JSON.parse(
    await readFile(join(folder, "package.json"), "utf8"),
  ) as Record<"dependencies" | "devDependencies" | "scripts", Readonly<Record<string, string>>>;
  const modules = join(folder, "node_modules");
  await mkdir(join(modules, "oncebox"), { recursive: true });
  await run("tar", ["-xzf", tarball, "--strip-components=1", "-C", join(modules, "oncebox")]);
  const own = JSON.parse(await readFile(join(modules, "oncebox/package.json"), "utf8"));
  for (const name of Object.keys({ ...dependencies, ...devDependencies, ...own.dependencies })) {
    if (name === "oncebox") continue;
    await mkdir(dirname(join(modules, name)), { recursive: true });
    await symlink(join(root, "node_modules", name), join(modules, name), "junction");
  }
  const programs: Readonly<Record<string, string>> = {
    oncebox: "oncebox/dist/cli/main.js",
    tsc: "typescript/bin/tsc",
  };
  return (script) => {
    const [program, ...args] = scripts[script]!.split(" ");
    return run(process.execPath, [join(modules, programs[program!]!), ...args], { cwd: folder });
  };
});
