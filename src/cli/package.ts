import { stat } from "node:fs/promises";
import { relative, resolve } from "node:path";
import { type Command, exitCodes, oneOf, text, UsageError } from "./command.js";
import { scaffoldClouds, scaffoldDatabases } from "./scaffold.js";

/** What infra/aws and infra/azure deploy: on Azure the database takes no passwords. */
const otherwise = {
  aws: { database: "postgres", entra: false },
  azure: { database: "sqlserver", entra: true },
} as const;

export const packageCommand: Command = {
  name: "package",
  summary: "make the archives that are deployed, of the functions in the current folder",
  usage: `package ${scaffoldClouds.join("|")} [--database NAMES] [--app FILE] [--out FOLDER] [--entra|--no-entra]`,
  options: {
    database: { type: "string" },
    app: { type: "string" },
    out: { type: "string" },
    entra: { type: "boolean" },
    "no-entra": { type: "boolean" },
  },
  help: {
    database: `${scaffoldDatabases.join(" or ")}, or both with a comma for tenants of both; postgres for aws and sqlserver for azure by default`,
    app: "a module whose default export is defineApp({ … }), instead of functions/app.ts",
    out: "build/aws or build/azure by default; it is emptied first",
    entra: "with the packages for signing in to SQL Server by Microsoft Entra, as azure by default",
    "no-entra": "without them, as aws by default",
  },
  examples: ["oncebox package aws", "oncebox package azure --database postgres"],
  positionals: 1,
  async run({ values, positionals, terminal }) {
    const cloud = oneOf(scaffoldClouds, positionals[0], "The cloud");
    const named = text(values, "database") ?? otherwise[cloud].database;
    const database = [...new Set(named.split(","))].map((name) =>
      oneOf(scaffoldDatabases, name.trim(), "--database"),
    );
    const app = text(values, "app");
    if (app !== undefined) await requireFile(app);
    const { packageFunctions } = await packaging();
    const archives = await packageFunctions({
      cloud,
      database,
      folder: resolve("."),
      ...(app === undefined ? {} : { app: resolve(app) }),
      outFolder: resolve(text(values, "out") ?? `build/${cloud}`),
      entra: values.entra === true || (values["no-entra"] !== true && otherwise[cloud].entra),
    });
    for (const { file, bytes } of archives) {
      terminal.out(`${relative("", file)}  ${Math.ceil(bytes / 1024)} KB`);
    }
    return exitCodes.ok;
  },
};

async function requireFile(name: string): Promise<void> {
  const found = await stat(name).catch(() => undefined);
  if (!found?.isFile()) throw new UsageError(`--app: there is no file ${name}.`);
}

async function packaging() {
  try {
    return await import("../packaging/package-functions.js");
  } catch (error) {
    if ((error as { code?: string }).code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw new UsageError("packaging needs esbuild and fflate: npm install --save-dev esbuild fflate");
  }
}
