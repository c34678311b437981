import { cp, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const packageRoot = fileURLToPath(new URL("../..", import.meta.url));

/** Copied unchanged, but for the name of the database, so that the new app is deployed by the templates that this package is tested with. */
const templates = {
  aws: ["serverless.yml", "infra/aws"],
  azure: ["azure.yaml", "host.json", "infra/azure"],
} as const satisfies Record<ScaffoldCloud, readonly string[]>;

/** Where the templates name the database: on Azure the one that is made, on AWS the one whose port the network opens. */
const databaseSetting = {
  aws: {
    file: "serverless.yml",
    from: "    database: postgres\n",
    to: (database: ScaffoldDatabase) => `    database: ${database}\n`,
  },
  azure: {
    file: "infra/azure/main.parameters.json",
    from: "{DATABASE=sqlserver}",
    to: (database: ScaffoldDatabase) => `{DATABASE=${database}}`,
  },
} as const;

const packages = {
  aws: ["@middy/core"],
  azure: ["@azure/functions", "@azure/identity", "@azure/keyvault-secrets", "@azure/storage-queue"],
  postgres: ["pg"],
  sqlserver: ["mssql"],
} as const satisfies Record<ScaffoldCloud | ScaffoldDatabase, readonly string[]>;

/** What not every app has. On AWS each has a function of its own; on Azure main.ts registers it. */
const optionalParts = [
  {
    option: "service",
    file: "inbox-service.ts",
    definition: `  // The inbox as a service, /v1/inbox, for consumers in other processes.
  service: { tokens: { from: "env", name: "INBOX_SERVICE_TOKENS" } },`,
  },
  {
    option: "admin",
    file: "admin.ts",
    definition: `  // The diagnostics API and the admin page, /_oncebox, for the people who run the app.
  admin: { tokens: { from: "env", name: "ONCEBOX_ADMIN_TOKENS" } },`,
  },
  // settings of the deployment name the webhooks
  { option: "recover", file: "recover-github.ts", definition: undefined },
] as const;

/** For building, type-checking and the local run. SQLite's package is for Node before 22.13, which has none of its own. */
const tools = ["@photostructure/sqlite", "@types/node", "esbuild", "fflate", "typescript"] as const;

/** The types of a function's event, on AWS alone. Azure's are in its package. */
const cloudTools = { aws: ["@types/aws-lambda"], azure: [] } as const satisfies Record<
  ScaffoldCloud,
  readonly string[]
>;

/** Writes a new app: the templates, the example's functions and the files that build them. Returns the files' paths. */
export async function writeScaffold(options: ScaffoldOptions): Promise<readonly string[]> {
  const { cloud, database, folder } = options;
  const absent = optionalParts.filter(({ option }) => !options[option]).map(({ file }) => file as string);
  for (const name of [...templates[cloud], `infra/sql/users-${database}.sql`, "infra/sql/catalogue.sql"]) {
    await cp(join(packageRoot, name), join(folder, name), { recursive: true });
  }
  const { file, from, to } = databaseSetting[cloud];
  const text = await readFile(join(folder, file), "utf8");
  await write(folder, file, text.replace(from, to(database)));
  await copyFunction("functions/app.ts", folder, (app) => withParts(app, options));
  for (const name of await readdir(join(packageRoot, "functions", cloud))) {
    if (!absent.includes(name)) await copyFunction(`functions/${cloud}/${name}`, folder);
  }
  await write(folder, "package.json", `${JSON.stringify(await manifestOf(options), null, 2)}\n`);
  await write(folder, "tsconfig.json", `${JSON.stringify(compilerOptions, null, 2)}\n`);
  await write(folder, "README.md", scaffoldReadme(options.name, cloud, database));
  await write(folder, ".gitignore", scaffoldIgnored);
  if (cloud === "azure") await write(folder, "local.settings.json.example", localSettings(database));
  return (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

/** In this repository the functions import the sources. In a new app they import the package. */
async function copyFunction(
  name: string,
  folder: string,
  change = (text: string): string => text,
): Promise<void> {
  const text = await readFile(join(packageRoot, name), "utf8");
  const own = /"(?:\.\.\/)+src\/(?:adapters\/)?(\w+)\/index\.js"/g;
  await write(folder, name, change(text.replaceAll(own, '"oncebox/$1"')));
}

/** The example's app has none of them: they need tokens, which nobody has who only tries the example. */
const withParts = (app: string, options: ScaffoldOptions): string =>
  optionalParts
    .filter(({ option }) => options[option])
    .flatMap(({ definition }) => definition ?? [])
    .reduce((text, definition) => text.replace(/^ {2}publishers: \{$/m, `${definition}\n$&`), app);

const flagsOf = (options: ScaffoldOptions): string =>
  optionalParts.map(({ option }) => (options[option] ? ` --${option}` : "")).join("");

async function manifestOf(options: ScaffoldOptions): Promise<object> {
  const { cloud, database, name } = options;
  const own = JSON.parse(await readFile(join(packageRoot, "package.json"), "utf8")) as {
    version: string;
    devDependencies: Readonly<Record<string, string>>;
  };
  const versions = (names: readonly string[]) =>
    Object.fromEntries(names.map((one) => [one, own.devDependencies[one]]));
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
      [`package:${cloud}`]: `oncebox package ${cloud} --database ${database}${cloud === "aws" ? flagsOf(options) : ""}`,
    },
    dependencies: { oncebox: `^${own.version}`, ...versions([...packages[cloud], ...packages[database]]) },
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

async function write(folder: string, name: string, text: string): Promise<void> {
  await mkdir(dirname(join(folder, name)), { recursive: true });
  await writeFile(join(folder, name), text);
}

export const scaffoldClouds = ["aws", "azure"] as const;
type ScaffoldCloud = (typeof scaffoldClouds)[number];
export const scaffoldDatabases = ["postgres", "sqlserver"] as const;
type ScaffoldDatabase = (typeof scaffoldDatabases)[number];

interface ScaffoldOptions {
  readonly cloud: ScaffoldCloud;
  readonly database: ScaffoldDatabase;
  /** Whether the app has the inbox service. */
  readonly service: boolean;
  /** Whether the app has the diagnostics API. */
  readonly admin: boolean;
  /** Whether the app asks GitHub for failed deliveries. */
  readonly recover: boolean;
  readonly folder: string;
  readonly name: string;
}

/** The `.gitignore` of a new app. */
const scaffoldIgnored = `node_modules/
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
} as const satisfies Record<ScaffoldDatabase, string>;

/** What Azure's core tools give to the function app on this machine. */
const localSettings = (database: ScaffoldDatabase): string => {
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
} as const satisfies Record<ScaffoldCloud, string>;

/** The first page of a new app. */
const scaffoldReadme = (name: string, cloud: ScaffoldCloud, database: ScaffoldDatabase): string => `# ${name}

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

\`functions/app.ts\` handles Stripe's \`invoice.paid\`. \`STRIPE_WEBHOOK_SECRET\` has the secret of the endpoint; a run that
only this machine can reach makes one of its own.
`;
