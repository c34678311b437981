import { stat } from "node:fs/promises";
import { relative, resolve } from "node:path";
import { omitUndefined } from "../base/defined.js";
import { type Command, exitCodes, oneOf, text, UsageError } from "./command.js";
import { scaffoldClouds, scaffoldDatabases } from "./scaffold.js";

/** The defaults for infra/aws and infra/azure. On Azure the database accepts no passwords. */
const otherwise = {
  aws: { database: "postgres", entra: false },
  azure: { database: "sqlserver", entra: true },
} as const;

export const packageCommand: Command = {
  name: "package",
  summary: "make the archives to deploy from the functions in the current folder",
  usage: `package ${scaffoldClouds.join("|")} [--database NAMES] [--app FILE] [--out FOLDER] [--service] [--admin] [--recover] [--entra|--no-entra] [--json]`,
  options: {
    database: { type: "string" },
    app: { type: "string" },
    out: { type: "string" },
    service: { type: "boolean" },
    admin: { type: "boolean" },
    recover: { type: "boolean" },
    entra: { type: "boolean" },
    "no-entra": { type: "boolean" },
    json: { type: "boolean" },
  },
  help: {
    database: `${scaffoldDatabases.join(" or ")}, or both with a comma for tenants on both; postgres for aws and sqlserver for azure by default`,
    app: "a module whose default export is defineApp({ … }), instead of functions/app.ts",
    out: "the output folder, which is emptied first; build/aws or build/azure by default",
    service: "aws: make the archive of the inbox service too; on azure the app's definition decides",
    admin: "aws: make the archive of the diagnostics API too; on azure the app's definition decides",
    recover: "aws: make the archive of the recovery of GitHub's deliveries too; on azure a setting decides",
    entra: "include the packages for signing in to the database with Microsoft Entra; the default for azure",
    "no-entra": "leave those packages out; the default for aws",
    json: "print JSON",
  },
  examples: ["oncebox package aws", "oncebox package azure --database postgres"],
  positionals: 1,
  async run({ values, positionals, terminal }) {
    const cloud = oneOf(scaffoldClouds, positionals[0], "The cloud");
    const named = text(values, "database") ?? otherwise[cloud].database;
    const database = [...new Set(named.split(","))].map((name) =>
      oneOf(scaffoldDatabases, name.trim(), "--database"),
    );
    const service = values.service === true;
    const admin = values.admin === true;
    const recover = values.recover === true;
    if ((service || admin) && cloud === "azure") {
      throw new UsageError(
        `--${service ? "service" : "admin"} is for aws. On azure a function app has the ${service ? "inbox service" : "diagnostics API"} if the app's definition has one.`,
      );
    }
    if (recover && cloud === "azure") {
      throw new UsageError(
        "--recover is for aws. On azure a function app recovers what ONCEBOX_RECOVER_GITHUB names.",
      );
    }
    const app = text(values, "app");
    if (app !== undefined) await requireAppFile(app);
    const { packageFunctions } = await packaging();
    const archives = await packageFunctions({
      cloud,
      database,
      folder: resolve("."),
      ...omitUndefined({ app: app && resolve(app) }),
      outFolder: resolve(text(values, "out") ?? `build/${cloud}`),
      service,
      admin,
      recover,
      entra: values.entra === true || (values["no-entra"] !== true && otherwise[cloud].entra),
    });
    if (values.json) terminal.out(JSON.stringify({ archives }));
    else
      for (const { file, bytes } of archives)
        terminal.out(`${relative("", file)}  ${Math.ceil(bytes / 1024)} KB`);
    return exitCodes.ok;
  },
};

async function requireAppFile(name: string): Promise<void> {
  const found = await stat(name).catch(() => undefined);
  if (!found?.isFile()) throw new UsageError(`--app: there is no file ${name}.`);
}

async function packaging() {
  try {
    return await import("../packaging/package-functions.js");
  } catch (error) {
    if ((error as { code?: string }).code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw new UsageError("package needs esbuild and fflate. Run: npm install --save-dev esbuild fflate");
  }
}
