import { cp, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { type Command, exitCodes, flag, option, UsageError } from "./command.js";
import { jsonOption, oneOf, print, text } from "./terminal.js";

export const clouds = ["aws", "azure"] as const;
export const databases = ["postgres", "sqlserver"] as const;
type Cloud = (typeof clouds)[number];
type Database = (typeof databases)[number];

/** The database of an app that does not choose one. */
export const defaultDatabase: Readonly<Record<Cloud, Database>> = { aws: "postgres", azure: "sqlserver" };

export const initCommand: Command = {
  name: "init",
  summary: "create a new app that is ready to deploy",
  usage: `init ${clouds.join("|")} [FOLDER] [--database NAME] [--service] [--admin] [--messaging] [--recover] [--json]`,
  options: {
    database: option(`${databases.join(" or ")}; postgres for aws and sqlserver for azure by default`),
    service: flag("the app has the inbox service, /v1/inbox, for consumers in other processes"),
    admin: flag("the app has the diagnostics API and the admin page, /_oncebox"),
    messaging: flag("the app has a service that exchanges messages with others, /_rf"),
    recover: flag("the app asks GitHub for failed deliveries, on a schedule"),
    ...jsonOption,
  },
  examples: ["oncebox init aws orders", "oncebox init azure orders --database postgres"],
  positionals: 2,
  async run(input) {
    const { values, positionals } = input;
    const cloud = oneOf(clouds, positionals[0], "The cloud");
    const database = oneOf(databases, text(values, "database") ?? defaultDatabase[cloud], "--database");
    const folder = resolve(positionals[1] ?? ".");
    const existing = (await readdir(folder).catch(() => [])).filter((name) => name !== ".git");
    if (existing.length > 0)
      throw new UsageError(`${folder} is not empty. Name a new or empty folder: init overwrites nothing.`);
    const parts = optionalParts.filter(({ name }) => values[name]);
    const files = await writeApp({ cloud, database, parts, folder, name: packageName(folder) });
    const enter = folder === resolve(".") ? "" : `cd ${relative("", folder)} && `;
    const next = `Next: ${enter}npm install && npm start\nREADME.md says how to send a webhook and how to deploy.`;
    print(input, { folder, files }, `${files.join("\n")}\n\n${next}`);
    return exitCodes.ok;
  },
};

/** The names of stacks and resource groups derive from it and must begin with a letter. */
const packageName = (folder: string): string =>
  basename(folder)
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, "-")
    .replace(/^[^a-z]+|-+$/g, "") || "app";

const packageRoot = fileURLToPath(new URL("../..", import.meta.url));

interface NewApp {
  readonly cloud: Cloud;
  readonly database: Database;
  readonly parts: readonly OptionalPart[];
  readonly folder: string;
  readonly name: string;
}

/** What not every app has. On AWS each has functions of its own; on Azure main.ts registers it. */
interface OptionalPart {
  readonly name: string;
  /** What it has in `functions`, on one of the clouds or on both. */
  readonly files: readonly string[];
  /** The lines of the app's definition, where it has some. */
  readonly definition?: string;
  /** On Azure: the line that main.ts begins with. */
  readonly registration?: string;
  /** Packages of this package's own that its files import. */
  readonly packages?: readonly string[];
}

const optionalParts: readonly OptionalPart[] = [
  {
    name: "service",
    files: ["aws/inbox-service.ts"],
    definition: `  // The inbox as a service, /v1/inbox, for consumers in other processes.
  service: { tokens: { from: "env", name: "INBOX_SERVICE_TOKENS" } },`,
  },
  {
    name: "admin",
    files: ["aws/admin.ts"],
    definition: `  // The diagnostics API and the admin page, /_oncebox, for the people who run the app.
  admin: { tokens: { from: "env", name: "ONCEBOX_ADMIN_TOKENS" } },`,
  },
  {
    name: "messaging",
    files: [
      "service.ts",
      "aws/message-receive.ts",
      "aws/message-dispatch.ts",
      "aws/message-maintain.ts",
      "azure/messages.ts",
    ],
    registration: 'import "./messages.js";\n',
    packages: ["zod"],
  },
  { name: "recover", files: ["aws/recover-github.ts"] }, // settings of the deployment name the webhooks
];

/** Writes a new app: the templates, the example's functions and the files that build them. Returns the files' names. */
async function writeApp(app: NewApp): Promise<readonly string[]> {
  const { cloud, database, parts, folder } = app;
  const write = async (name: string, text: string): Promise<void> => {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), text);
  };
  for (const name of [...templates[cloud], `infra/sql/users-${database}.sql`, "infra/sql/catalogue.sql"])
    await cp(join(packageRoot, name), join(folder, name), { recursive: true });
  const { file, setting } = databaseSetting[cloud];
  const template = await readFile(join(folder, file), "utf8");
  await write(file, template.replace(setting, setting.replace(defaultDatabase[cloud], database)));
  const functions = await functionNames(cloud, parts);
  for (const name of functions)
    await write(`functions/${name}`, withParts(await functionFile(name), name, parts));
  await write("package.json", `${JSON.stringify(await manifestOf(app), null, 2)}\n`);
  await write("tsconfig.json", `${JSON.stringify(compilerOptions, null, 2)}\n`);
  await write("README.md", readme(app));
  await write(".gitignore", ignored);
  if (cloud === "azure") await write("local.settings.json.example", localSettings(database));
  return (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
}

/** The files of the app, of the cloud's functions, and of the parts that are asked for. */
async function functionNames(cloud: Cloud, parts: readonly OptionalPart[]): Promise<readonly string[]> {
  const entries = await readdir(join(packageRoot, "functions"), { recursive: true });
  const isFor = (name: string): boolean => {
    const part = optionalParts.find(({ files }) => files.includes(name));
    const isOfCloud = !name.includes("/") || name.startsWith(`${cloud}/`);
    return name.endsWith(".ts") && isOfCloud && (part === undefined || parts.includes(part));
  };
  return entries.map((name) => name.split(sep).join("/")).filter(isFor);
}

/** In this repository the functions import the sources. In a new app they import the package. */
async function functionFile(name: string): Promise<string> {
  const text = await readFile(join(packageRoot, "functions", name), "utf8");
  return text
    .replaceAll(/"(?:\.\.\/)+src\/index\.js"/g, '"oncebox"')
    .replaceAll(/"(?:\.\.\/)+src\/(?:adapters\/)?(\w+)\/index\.js"/g, '"oncebox/$1"');
}

/** The example has none of them: they need secrets, which nobody has who only tries it. */
function withParts(text: string, name: string, parts: readonly OptionalPart[]): string {
  if (name === "azure/main.ts") return parts.map((part) => part.registration ?? "").join("") + text;
  if (name !== "app.ts") return text;
  return parts
    .flatMap(({ definition }) => definition ?? [])
    .reduce((made, definition) => made.replace(/^ {2}publishers: \{$/m, `${definition}\n$&`), text);
}

/** Copied unchanged, but for the name of the database, so that the new app is deployed by the templates that this package is tested with. */
const templates = {
  aws: ["serverless.yml", "infra/aws"],
  azure: ["azure.yaml", "host.json", "infra/azure"],
} as const satisfies Record<Cloud, readonly string[]>;

/** Where the templates name the default database: on Azure the server that is made, on AWS the port that the network opens. */
const databaseSetting = {
  aws: { file: "serverless.yml", setting: "    database: postgres\n" },
  azure: { file: "infra/azure/main.parameters.json", setting: "{DATABASE=sqlserver}" },
} as const satisfies Record<Cloud, object>;

const packages = {
  aws: ["@middy/core"],
  azure: ["@azure/functions", "@azure/identity", "@azure/keyvault-secrets", "@azure/storage-queue"],
  postgres: ["pg"],
  sqlserver: ["mssql"],
} as const satisfies Record<Cloud | Database, readonly string[]>;

/** For building, type-checking and the local run. SQLite's package is for Node before 22.13, which has none of its own. */
const tools = ["@photostructure/sqlite", "@types/node", "esbuild", "fflate", "typescript"] as const;

/** The types of a function's event. Azure's are in its package. */
const cloudTools: Readonly<Record<Cloud, readonly string[]>> = { aws: ["@types/aws-lambda"], azure: [] };

async function manifestOf({ cloud, database, parts, name }: NewApp): Promise<object> {
  const own = JSON.parse(await readFile(join(packageRoot, "package.json"), "utf8")) as {
    version: string;
    dependencies: Readonly<Record<string, string>>;
    devDependencies: Readonly<Record<string, string>>;
  };
  const flags = cloud === "aws" ? parts.map((part) => ` --${part.name}`).join("") : "";
  const known = { ...own.dependencies, ...own.devDependencies };
  const versions = (names: readonly string[]) => Object.fromEntries(names.map((one) => [one, known[one]]));
  const ofParts = parts.flatMap((part) => part.packages ?? []);
  return {
    name,
    private: true,
    type: "module",
    // Azure's core tools start in the app's folder and load this file.
    ...(cloud === "azure" ? { main: "build/azure/app/main.mjs" } : {}),
    engines: { node: ">=20.19" },
    scripts: {
      start: "oncebox dev --app functions/app.ts --try",
      typecheck: "tsc --noEmit",
      [`package:${cloud}`]: `oncebox package ${cloud} --database ${database}${flags}`,
    },
    dependencies: {
      oncebox: `^${own.version}`,
      ...versions([...packages[cloud], ...packages[database], ...ofParts]),
    },
    devDependencies: versions([...tools, ...cloudTools[cloud]].sort()),
  };
}

const compilerOptions = {
  compilerOptions: {
    target: "es2023",
    module: "nodenext",
    strict: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: true,
    noEmit: true,
    types: ["node"],
  },
  include: ["functions"],
};

/** The `.gitignore` of a new app. */
const ignored = `node_modules/
build/
.serverless/
.azure/
.azurite/
.env
local.settings.json
*.db
*.db-shm
*.db-wal
`;

const localUrls = {
  postgres: "postgres://postgres@localhost/postgres",
  sqlserver: "mssql://sa:PASSWORD@localhost:1433/master?trustServerCertificate=true",
} as const satisfies Record<Database, string>;

/** What Azure's core tools give to the function app on this machine. */
const localSettings = (database: Database): string => {
  const Values = {
    FUNCTIONS_WORKER_RUNTIME: "node",
    AzureWebJobsStorage: "UseDevelopmentStorage=true",
    ONCEBOX_WAKE_QUEUE: "oncebox-wake",
    ONCEBOX_DATABASE_URL: localUrls[database],
    STRIPE_WEBHOOK_SECRET: "whsec_only_for_this_machine",
  };
  return `${JSON.stringify({ IsEncrypted: false, Values }, null, 2)}\n`;
};

const guides = "https://github.com/oncebox/oncebox/blob/main/docs";

const deployments = {
  aws: `Deploy with osls, the open fork of the Serverless Framework, as [the guide](${guides}/deploy-aws.md) says step by step:

\`\`\`sh
npm run package:aws
npx osls@4 deploy --stage prod
\`\`\``,
  azure: `Deploy with azd, as [the guide](${guides}/deploy-azure.md) says step by step:

\`\`\`sh
azd up
\`\`\`

Run the function app itself on this machine, with Azure's core tools and Azurite in its own terminal:

\`\`\`sh
cp local.settings.json.example local.settings.json   # then write your database's URL into it
npm run package:azure
npx azurite --location .azurite
npx azure-functions-core-tools@4 start
\`\`\``,
} as const satisfies Record<Cloud, string>;

const messagingReadme = `\`functions/service.ts\` exchanges [messages](${guides}/messaging.md) with other services. \`npx oncebox migrate --messages\` creates its
tables too, and its deployment is switched on by a setting, as the guide says.

`;

/** The first page of a new app. */
const readme = ({ name, cloud, database, parts }: NewApp): string => `# ${name}

Receives webhooks, handles them and publishes what follows, with [oncebox](https://github.com/oncebox/oncebox).
\`functions/app.ts\` has the sources, handlers and publishers: change it. \`functions/${cloud}\` has the functions that run it.

\`\`\`sh
npm install
npm start                                                          # on this machine, on SQLite, with an example webhook
npx oncebox sign stripe --app functions/app.ts --send              # another webhook, in a second terminal
npx oncebox status                                                 # what the queues have
\`\`\`

Node 20.19 or later runs it. On ${database === "postgres" ? "PostgreSQL" : "SQL Server"}, set \`ONCEBOX_DATABASE_URL\` and create the tables:

\`\`\`sh
npx oncebox migrate
\`\`\`

${deployments[cloud]}

${parts.some((part) => part.name === "messaging") ? messagingReadme : ""}\`functions/app.ts\` handles \`stripe.invoice.paid\`. \`STRIPE_WEBHOOK_SECRET\` has the secret of the endpoint; a run that
only this machine can reach makes one of its own.
`;
