import { mkdir, mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { root } from "../support/markdown.js";
import { type PackedPackage, packedPackage } from "./packed.js";

let packed: PackedPackage;
let workspace: string;

beforeAll(async () => {
  packed = await packedPackage();
  workspace = await mkdtemp(join(tmpdir(), "oncebox-linked-"));
});
afterAll(async () => {
  await rm(workspace, { recursive: true, force: true });
  await packed?.remove();
});

async function link(name: string, target: string, folder: string): Promise<void> {
  const path = join(folder, "node_modules", name);
  await mkdir(dirname(path), { recursive: true });
  await symlink(target, path, "junction");
}

it("FUN-09 a linked package (npm link, workspaces) makes bundles of one database whatever its folder is called", async () => {
  await packed.cli(["init", "aws", "app"], workspace);
  const app = join(workspace, "app");
  const linked = packed.folder;
  await link("oncebox", linked, app);
  // The drivers of SQL Server and SQLite are not installed.
  for (const name of ["esbuild", "fflate", "pg", "@middy/core"]) {
    await link(name, join(root, "node_modules", name), linked);
  }
  await packed.cli(["package", "aws", "--database", "postgres"], app);
  const webhook = await readFile(join(app, "build/aws/functions/webhook.mjs"), "utf8");
  expect(webhook.includes("This bundle was built for postgres.")).toBe(true);
});
