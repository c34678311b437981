import type { ScaffoldDatabase } from "./scaffold-options.js";

/** The `.gitignore` of a new app. */
export const scaffoldIgnored = `node_modules/
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
export const localSettings = (database: ScaffoldDatabase): string => {
  const Values = {
    FUNCTIONS_WORKER_RUNTIME: "node",
    AzureWebJobsStorage: "UseDevelopmentStorage=true",
    ONCEBOX_WAKE_QUEUE: "oncebox-wake",
    ONCEBOX_DATABASE_URL: localUrls[database],
    STRIPE_WEBHOOK_SECRET: "whsec_only_for_this_machine",
  };
  return `${JSON.stringify({ IsEncrypted: false, Values }, null, 2)}\n`;
};
