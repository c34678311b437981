import type { ScaffoldCloud, ScaffoldDatabase } from "./scaffold-options.js";

const guides = "https://github.com/oncebox/oncebox/blob/main/docs";

const deployments = {
  aws: `Deploy with the Serverless Framework's open fork; X:

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
export const scaffoldReadme = (
  name: string,
  cloud: ScaffoldCloud,
  database: ScaffoldDatabase,
): string => `# ${name}

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
