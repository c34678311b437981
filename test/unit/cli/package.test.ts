import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runCli } from "../../../src/cli/run.js";
import { bundleFunctions } from "../../../src/packaging/bundle-functions.js";

describe("oncebox package and the inbox service", () => {
  let parent: string;
  beforeAll(async () => {
    parent = await mkdtemp(join(tmpdir(), "oncebox-package-"));
  });
  afterAll(() => rm(parent, { recursive: true, force: true }));

  const cli = async (...args: readonly string[]) => {
    const lines: string[] = [];
    const say = (line: string) => void lines.push(line);
    const { signal } = new AbortController();
    const code = await runCli(args, { env: {}, isInteractive: false, out: say, err: say, signal });
    return { code, text: lines.join("\n") };
  };

  it("FUN-10 on AWS it is refused when the app has no file for it", async () => {
    const folder = join(parent, "app");
    await mkdir(join(folder, "functions/aws"), { recursive: true });
    await writeFile(join(folder, "functions/aws/webhook.ts"), "export const handler = () => undefined;\n");
    const bundled = bundleFunctions({
      cloud: "aws",
      database: "postgres",
      folder,
      outFolder: join(parent, "out"),
      service: true,
    });
    await expect(bundled).rejects.toThrow(
      `${join(folder, "functions/aws")} has no inbox-service.ts. oncebox init aws --service writes one.`,
    );
  });

  it("FUN-10 on Azure the option is refused: the app's definition decides", async () => {
    expect(await cli("package", "azure", "--service", "--out", join(parent, "azure"))).toMatchObject({
      code: 2,
      text: expect.stringContaining("--service is for aws."),
    });
    expect(await readdir(parent)).not.toContain("azure");
  });
});
