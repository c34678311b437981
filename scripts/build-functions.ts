/** `npm run build:functions -- --cloud aws --database postgres [--app file] [--out folder] [--entra]` */
import { stat } from "node:fs/promises";
import { relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { bundleFunctions, clouds, databases } from "./bundle-functions.js";

const usage = `usage: npm run build:functions -- --cloud NAME --database NAME [--app FILE] [--out FOLDER] [--entra]

  --cloud NAME     ${Object.keys(clouds).join(", ")}
  --database NAME  ${databases.join(", ")}
  --app FILE       your app's definition; functions/app.ts by default
  --out FOLDER     build/NAME by default
  --entra          with the packages for signing in to SQL Server by Microsoft Entra`;

async function run(): Promise<void> {
  const { values } = parseArgs({
    options: {
      cloud: { type: "string" },
      database: { type: "string" },
      app: { type: "string" },
      out: { type: "string" },
      entra: { type: "boolean", default: false },
    },
  });
  const cloud = oneOf(Object.keys(clouds) as (keyof typeof clouds)[], values.cloud, "--cloud");
  const database = oneOf(databases, values.database, "--database");
  const outFolder = resolve(values.out ?? `build/${cloud}`);
  const app = values.app === undefined ? undefined : resolve(values.app);
  if (app !== undefined && !(await stat(app).catch(() => undefined))?.isFile()) {
    throw new Error(`--app: there is no file ${values.app}.`);
  }
  const { outputs } = await bundleFunctions({
    cloud,
    database,
    outFolder,
    entra: values.entra,
    ...(app === undefined ? {} : { app }),
  });
  for (const [file, { bytes }] of Object.entries(outputs)) {
    if (file.endsWith(".mjs")) console.log(`${relative("", file)}  ${Math.ceil(bytes / 1024)} KB`);
  }
}

function oneOf<Name extends string>(known: readonly Name[], value: string | undefined, option: string): Name {
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
