import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { type BundledDatabase, type CloudName, databases } from "./bundle-functions.js";

export interface PackageOptions {
  readonly database: BundledDatabase;
  readonly app?: string;
  readonly outFolder: string;
  readonly entra: boolean;
}

/** The options of `npm run package:aws` and `package:azure`, which differ in what they are by default. */
export async function packageOptions(
  cloud: CloudName,
  otherwise: { readonly database: BundledDatabase; readonly entra: boolean },
): Promise<PackageOptions> {
  const { values } = parseArgs({
    options: {
      database: { type: "string", default: otherwise.database },
      app: { type: "string" },
      out: { type: "string", default: `build/${cloud}` },
      entra: { type: "boolean", default: otherwise.entra },
    },
    allowNegative: true,
  });
  const database = databases.find((name) => name === values.database);
  if (database === undefined) throw new Error(`--database must be one of ${databases.join(", ")}.`);
  const app = values.app === undefined ? undefined : resolve(values.app);
  if (app !== undefined && !(await stat(app).catch(() => undefined))?.isFile()) {
    throw new Error(`--app: there is no file ${values.app}.`);
  }
  const outFolder = resolve(values.out);
  return { database, outFolder, entra: values.entra, ...(app === undefined ? {} : { app }) };
}
