import { stat } from "node:fs/promises";
import { relative, resolve } from "node:path";
import { omitUndefined } from "../base/defined.js";
import { type Command, exitCodes, flag, option, UsageError } from "./command.js";
import { clouds, databases, defaultDatabase } from "./init.js";
import { jsonOption, oneOf, print, text } from "./terminal.js";

export const packageCommand: Command = {
  name: "package",
  summary: "make the archives to deploy from the functions in the current folder",
  usage: `package ${clouds.join("|")} [--database NAMES] [--app FILE] [--out FOLDER] [--service] [--admin] [--messaging] [--recover] [--entra|--no-entra] [--json]`,
  options: {
    database: option(
      `${databases.join(" or ")}, or both with a comma for tenants on both; postgres for aws and sqlserver for azure by default`,
    ),
    app: option("a module whose default export is defineApp({ … }), instead of functions/app.ts"),
    out: option("the output folder, which is emptied first; build/aws or build/azure by default"),
    service: flag("aws: make the archive of the inbox service too; on azure the app's definition decides"),
    admin: flag("aws: make the archive of the diagnostics API too; on azure the app's definition decides"),
    messaging: flag("aws: make the archives of a service's messages too; on azure main.ts decides"),
    recover: flag(
      "aws: make the archive of the recovery of GitHub's deliveries too; on azure a setting decides",
    ),
    entra: flag(
      "include the packages for signing in to the database with Microsoft Entra; the default for azure",
    ),
    "no-entra": flag("leave those packages out; the default for aws"),
    ...jsonOption,
  },
  examples: ["oncebox package aws", "oncebox package azure --database postgres"],
  positionals: 1,
  async run(input) {
    const { values, positionals } = input;
    const cloud = oneOf(clouds, positionals[0], "The cloud");
    const named = text(values, "database") ?? defaultDatabase[cloud];
    const database = [...new Set(named.split(","))].map((name) =>
      oneOf(databases, name.trim(), "--database"),
    );
    const onlyAws = Object.keys(onAzure).find((name) => values[name]);
    if (cloud === "azure" && onlyAws !== undefined)
      throw new UsageError(`--${onlyAws} is for aws. On azure a function app ${onAzure[onlyAws]}.`);
    const app = text(values, "app");
    if (app !== undefined) await requireAppFile(app);
    const { packageFunctions } = await packaging();
    const archives = await packageFunctions({
      cloud,
      database,
      folder: resolve("."),
      ...omitUndefined({ app: app && resolve(app) }),
      outFolder: resolve(text(values, "out") ?? `build/${cloud}`),
      service: values.service === true,
      admin: values.admin === true,
      messaging: values.messaging === true,
      recover: values.recover === true,
      // On Azure the database of the templates accepts no passwords.
      entra: values.entra === true || (values["no-entra"] !== true && cloud === "azure"),
    });
    const lines = archives.map(({ file, bytes }) => `${relative("", file)}  ${Math.ceil(bytes / 1024)} KB`);
    print(input, { archives }, lines.join("\n"));
    return exitCodes.ok;
  },
};

/** Where one process runs all functions, an option cannot leave one out. */
const onAzure: Readonly<Record<string, string>> = {
  service: "has the inbox service if the app's definition has one",
  admin: "has the diagnostics API if the app's definition has one",
  messaging: 'has the functions of messages if functions/azure/main.ts imports "./messages.js"',
  recover: "recovers what ONCEBOX_RECOVER_GITHUB names",
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
