import { readdir } from "node:fs/promises";
import { basename, relative, resolve } from "node:path";
import { type Command, exitCodes, oneOf, text, UsageError } from "./command.js";
import { scaffoldClouds, scaffoldDatabases, writeScaffold } from "./scaffold.js";

export const initCommand: Command = {
  name: "init",
  summary: "create a new app that is ready to deploy",
  usage: `init ${scaffoldClouds.join("|")} [FOLDER] [--database NAME] [--service] [--admin] [--recover] [--json]`,
  options: {
    database: { type: "string" },
    service: { type: "boolean" },
    admin: { type: "boolean" },
    recover: { type: "boolean" },
    json: { type: "boolean" },
  },
  help: {
    database: `${scaffoldDatabases.join(" or ")}; postgres for aws and sqlserver for azure by default`,
    service: "the app has the inbox service, /v1/inbox, for consumers in other processes",
    admin: "the app has the diagnostics API and the admin page, /_oncebox",
    recover: "the app asks GitHub for failed deliveries, on a schedule",
    json: "print JSON",
  },
  examples: ["oncebox init aws orders", "oncebox init azure orders --database postgres"],
  positionals: 2,
  async run({ values, positionals, terminal }) {
    const cloud = oneOf(scaffoldClouds, positionals[0], "The cloud");
    const otherwise = cloud === "aws" ? "postgres" : "sqlserver";
    const database = oneOf(scaffoldDatabases, text(values, "database") ?? otherwise, "--database");
    const folder = resolve(positionals[1] ?? ".");
    const existing = (await readdir(folder).catch(() => [])).filter((name) => name !== ".git");
    if (existing.length > 0) {
      throw new UsageError(`${folder} is not empty. Name a new or empty folder: init overwrites nothing.`);
    }
    const asked = {
      service: values.service === true,
      admin: values.admin === true,
      recover: values.recover === true,
    };
    const files = await writeScaffold({ cloud, database, ...asked, folder, name: packageName(folder) });
    const names = files.map((file) => relative(folder, file));
    if (values.json) {
      terminal.out(JSON.stringify({ folder, files: names }));
      return exitCodes.ok;
    }
    for (const name of names) terminal.out(name);
    const enter = folder === resolve(".") ? "" : `cd ${relative("", folder)} && `;
    terminal.out(`\nNext: ${enter}npm install && npm start`);
    terminal.out("README.md says how to send a webhook and how to deploy.");
    return exitCodes.ok;
  },
};

/** The names of stacks and resource groups derive from it and must begin with a letter. */
const packageName = (folder: string): string =>
  basename(folder)
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, "-")
    .replace(/^[^a-z]+|-+$/g, "") || "app";
