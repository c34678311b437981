import { execFile } from "node:child_process";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

export const root = fileURLToPath(new URL("../..", import.meta.url));
const run = promisify(execFile);
const require = createRequire(import.meta.url);

export interface Resource {
  readonly Type: string;
  readonly DependsOn?: readonly string[];
  readonly Condition?: string;
  readonly DeletionPolicy?: string;
  readonly UpdateReplacePolicy?: string;
  // biome-ignore lint/suspicious/noExplicitAny: CloudFormation's own shapes, read by tests
  readonly Properties: any;
}

export interface Template {
  /** Their parameters are known when the template is made. */
  readonly Conditions?: Readonly<Record<string, unknown>>;
  readonly Resources: Readonly<Record<string, Resource>>;
}

export interface AwsProject {
  readonly folder: string;
  /** The CloudFormation that a deployment would send, made by the real tool without a network or an account. */
  template(
    stage: string,
    params?: Readonly<Record<string, string>>,
  ): Promise<{ file: string; json: Template }>;
  remove(): Promise<void>;
}

function executable(name: string): string {
  const manifest = require.resolve(`${name}/package.json`);
  const { bin } = require(manifest) as { bin: string | Record<string, string> };
  return join(dirname(manifest), typeof bin === "string" ? bin : bin[name]!);
}

/** serverless.yml and what it includes, with all archives of `npm run package:aws`, in a folder of its own. */
export async function packageForAws(appName: string): Promise<AwsProject> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-aws-"));
  for (const name of ["serverless.yml", "infra/aws"]) {
    await cp(join(root, name), join(folder, name), { recursive: true });
  }
  await writeFile(join(folder, "package.json"), JSON.stringify({ name: appName }));
  await runPackage("aws", join(folder, "build/aws"), "--service", "--admin", "--messaging", "--recover");
  return {
    folder,
    async template(stage, params = {}) {
      const out = await mkdtemp(join(folder, `stack-${stage}-`));
      const given = Object.entries(params).map(([name, value]) => `--param=${name}=${value}`);
      const { stdout, stderr } = await run(
        process.execPath,
        [executable("osls"), "package", "--package", out, "--stage", stage, ...given],
        { cwd: folder, env: { PATH: process.env.PATH, HOME: folder, SLS_TELEMETRY_DISABLED: "1" } },
      );
      if (/warning|invalid/i.test(stdout + stderr)) throw new Error(stdout + stderr);
      const file = join(out, "cloudformation-template-update-stack.json");
      return { file, json: JSON.parse(await readFile(file, "utf8")) as Template };
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

/** As `npm run package:…` does. */
export const runPackage = (cloud: "aws" | "azure", out: string, ...args: readonly string[]) =>
  run(
    process.execPath,
    [executable("tsx"), join(root, "src/cli/main.ts"), "package", cloud, "--out", out, ...args],
    { cwd: root },
  );
