import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bundleFunctions } from "../../../src/packaging/bundle-functions.js";
import { packageFunctions } from "../../../src/packaging/package-functions.js";
import { cli as runScripted } from "../../support/cli.js";

describe("oncebox package and the optional functions", () => {
  let parent: string;
  beforeAll(async () => {
    parent = await mkdtemp(join(tmpdir(), "oncebox-package-"));
  });
  afterAll(() => rm(parent, { recursive: true, force: true }));

  const cli = async (...args: readonly string[]) => {
    const { code, out, err } = await runScripted(...args);
    return { code, text: `${out}\n${err}` };
  };

  /** Bundles two functions, or those of them that `names` names, and returns the bundles' names. */
  const bundled = async (
    names: readonly string[],
    asked: Partial<Record<"service" | "admin" | "recover" | "messaging", boolean>> = {},
  ) => {
    const folder = await mkdtemp(join(parent, "app-"));
    const functions = join(folder, "functions/aws");
    await mkdir(functions, { recursive: true });
    for (const name of names) {
      await writeFile(join(functions, `${name}.ts`), "export const handler = () => undefined;\n");
    }
    const outFolder = join(folder, "build");
    await bundleFunctions({ cloud: "aws", database: "postgres", folder, outFolder, ...asked });
    return (await readdir(outFolder)).filter((name) => name.endsWith(".mjs")).sort();
  };

  it("FUN-10 an output folder that holds anything but an earlier output is refused, and nothing is deleted", async () => {
    const folder = await mkdtemp(join(parent, "app-"));
    await mkdir(join(folder, "functions/aws"), { recursive: true });
    await mkdir(join(folder, "mine"));
    await writeFile(join(folder, "functions/aws/webhook.ts"), "export const handler = () => undefined;\n");
    await writeFile(join(folder, "mine/own.txt"), "precious");
    const pack = (outFolder: string) =>
      packageFunctions({ cloud: "aws", database: "postgres", folder, outFolder: join(folder, outFolder) });
    for (const [outFolder, why] of [
      [".", /holds the project/],
      ["..", /holds the project/],
      ["functions", /has aws in it/],
      ["mine", /has own.txt in it/],
    ] as const)
      await expect(pack(outFolder), outFolder).rejects.toThrow(why);
    const files = await readdir(folder, { recursive: true });
    expect(files).toEqual(expect.arrayContaining(["functions/aws/webhook.ts", "mine/own.txt"]));
    for (const _ of [1, 2]) expect(await pack("build/aws")).toMatchObject([{ bytes: expect.any(Number) }]);
  });

  it("SVC-03 FUN-10 on AWS its function is bundled only when it is asked for", async () => {
    const all = ["webhook", "inbox-service"];
    expect(await bundled(all)).toEqual(["webhook.mjs"]);
    expect(await bundled(all, { service: false })).toEqual(["webhook.mjs"]);
    expect(await bundled(all, { service: true })).toEqual(["inbox-service.mjs", "webhook.mjs"]);
  });

  it("MSG-14 FUN-10 on AWS that of the diagnostics API is bundled only when it is asked for", async () => {
    const all = ["webhook", "inbox-service", "admin"];
    expect(await bundled(all)).toEqual(["webhook.mjs"]);
    expect(await bundled(all, { admin: true })).toEqual(["admin.mjs", "webhook.mjs"]);
    await expect(bundled(["webhook"], { admin: true })).rejects.toThrow(
      /functions.aws has no admin\.ts\. oncebox init aws --admin writes one\.$/,
    );
  });

  it("MSG-05 FUN-10 on AWS those of a service's messages are bundled only when they are asked for, and all three", async () => {
    const all = ["webhook", "message-receive", "message-dispatch", "message-maintain"];
    expect(await bundled(all)).toEqual(["webhook.mjs"]);
    expect(await bundled(all, { messaging: true })).toEqual(all.map((name) => `${name}.mjs`).sort());
    await expect(bundled(all.slice(0, 3), { messaging: true })).rejects.toThrow(
      /functions.aws has no message-maintain\.ts\. oncebox init aws --messaging writes one\.$/,
    );
  });

  it("FUN-10 on AWS that of the recovery of GitHub's deliveries is bundled only when it is asked for", async () => {
    const all = ["webhook", "recover-github"];
    expect(await bundled(all)).toEqual(["webhook.mjs"]);
    expect(await bundled(all, { recover: true })).toEqual(["recover-github.mjs", "webhook.mjs"]);
    await expect(bundled(["webhook"], { recover: true })).rejects.toThrow(
      /functions.aws has no recover-github\.ts\. oncebox init aws --recover writes one\.$/,
    );
  });

  it("FUN-10 on AWS it is refused when the app has no file for it", async () => {
    await expect(bundled(["webhook"], { service: true })).rejects.toThrow(
      /functions.aws has no inbox-service\.ts\. oncebox init aws --service writes one\.$/,
    );
  });

  it("FUN-10 on Azure the option is refused: the app's definition decides", async () => {
    expect(await cli("package", "azure", "--service", "--out", join(parent, "azure"))).toMatchObject({
      code: 2,
      text: expect.stringContaining("--service is for aws."),
    });
    expect(await cli("package", "azure", "--admin", "--out", join(parent, "azure"))).toMatchObject({
      code: 2,
      text: expect.stringContaining("--admin is for aws."),
    });
    expect(await cli("package", "azure", "--recover", "--out", join(parent, "azure"))).toMatchObject({
      code: 2,
      text: expect.stringContaining("ONCEBOX_RECOVER_GITHUB"),
    });
    expect(await readdir(parent)).not.toContain("azure");
  });
});
