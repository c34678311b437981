import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { describeInit, expectStart } from "./init-suite.js";
import { npm, type PackedPackage, packedPackage, run } from "./packed.js";

describeInit("a new app, created by oncebox init and npm install", async (folder, { tarball }) => {
  await npm(["install", tarball], folder);
  return (script) => npm(["run", script], folder);
});

/** The oldest on which `oncebox init` and its app are promised to work. The npm package "node" has its binary. */
const oldest = "20.19.0";

describe(`a new app on Node ${oldest}`, () => {
  let parent: string;
  let packed: PackedPackage;
  let node: string;
  beforeAll(async () => {
    packed = await packedPackage();
    parent = await mkdtemp(join(tmpdir(), "oncebox-init-oldest-"));
    const print = ["--", "node", "-p", "process.execPath"];
    const { stdout } = await npm(["exec", "--yes", `--package=node@${oldest}`, ...print], parent);
    node = stdout.trim().split("\n").at(-1)!;
    expect((await run(node, ["--version"])).stdout.trim()).toBe(`v${oldest}`);
  });
  afterAll(async () => {
    await rm(parent, { recursive: true, force: true });
    await packed?.remove();
  });

  it.each(["aws", "azure"])(
    "FUN-09 FUN-10 for %s: init, install, typecheck, package, start",
    async (cloud) => {
      const onOldest = { env: { ...process.env, PATH: `${dirname(node)}${delimiter}${process.env.PATH}` } };
      await run(node, [join(packed.folder, "dist/cli/main.js"), "init", cloud, cloud], { cwd: parent });
      const folder = join(parent, cloud);
      const script = async (...args: string[]) =>
        (await run("npm", args, { cwd: folder, ...onOldest, shell: process.platform === "win32" })).stdout;
      await script("install", packed.tarball);
      await script("pkg", "set", "scripts.version-of-node=node --version");
      expect(await script("run", "version-of-node")).toContain(`v${oldest}`);
      await script("run", "typecheck");
      await script("run", `package:${cloud}`);
      expect((await readdir(join(folder, "build", cloud))).some((name) => name.endsWith(".zip"))).toBe(true);
      await expectStart(folder, node);
    },
  );
});
