/** `npm run build:functions -- [--cloud aws] [--database postgres] [--app file] [--out folder] [--service] [--admin] [--messaging] [--entra]` */
import { stat } from "node:fs/promises";
import { relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { omitUndefined } from "../src/base/defined.js";
import { bundleFunctions, clouds } from "../src/packaging/bundle-functions.js";
import { databases } from "../src/packaging/own-package.js";

const cloudNames = Object.keys(clouds) as (keyof typeof clouds)[];

const usage = `usage: npm run build:functions -- [--cloud NAME] [--database NAME] [--app FILE] [--out FOLDER] [--service] [--admin] [--messaging] [--entra]

  --cloud NAME     ${cloudNames.join(", ")}; all of them by default
  --database NAME  ${databases.join(", ")}, or several, separated by commas; postgres by default
  --app FILE       the app's definition; functions/app.ts by default
  --out FOLDER     the output folder, with a folder per cloud; build by default
  --service        bundle the function of the inbox service for AWS as well
  --admin          bundle the function of the diagnostics API for AWS as well
  --messaging      bundle the functions of a service's messages for AWS as well
  --entra          include the packages for SQL Server sign-in with Microsoft Entra`;

async function run(): Promise<void> {
  const { values } = parseArgs({
    options: {
      cloud: { type: "string" },
      database: { type: "string", default: "postgres" },
      app: { type: "string" },
      out: { type: "string", default: "build" },
      service: { type: "boolean", default: false },
      admin: { type: "boolean", default: false },
      messaging: { type: "boolean", default: false },
      entra: { type: "boolean", default: false },
    },
  });
  const chosen = values.cloud === undefined ? cloudNames : [oneOf(cloudNames, values.cloud, "--cloud")];
  const database = values.database.split(",").map((name) => oneOf(databases, name, "--database"));
  const app = values.app === undefined ? undefined : resolve(values.app);
  if (app !== undefined && !(await stat(app).catch(() => undefined))?.isFile()) {
    throw new Error(`--app: there is no file ${values.app}.`);
  }
  for (const cloud of chosen) {
    const { outputs } = await bundleFunctions({
      cloud,
      database,
      outFolder: resolve(values.out, cloud),
      service: values.service && cloud === "aws",
      admin: values.admin && cloud === "aws",
      messaging: values.messaging && cloud === "aws",
      entra: values.entra,
      ...omitUndefined({ app }),
    });
    for (const [file, { bytes }] of Object.entries(outputs)) {
      if (file.endsWith(".mjs")) console.log(`${relative("", file)}  ${Math.ceil(bytes / 1024)} KB`);
    }
  }
}

function oneOf<Name extends string>(known: readonly Name[], value: string, option: string): Name {
  const found = known.find((name) => name === value);
  if (found === undefined) throw new Error(`${option} must be one of ${known.join(", ")}.`);
  return found;
}

try {
  await run();
} catch (error) {
  console.error(`${(error as Error).message}\n\n${usage}`);
  process.exitCode = 2;
}
