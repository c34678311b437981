/** The app of docs/deploy-azure.md with many tenants: found in the catalogue, or in a vault where there is one. */

import { tenantsFromKeyVault } from "../../../src/adapters/azure/index.js";
import { multiTenant, tenantsFromCatalogue } from "../../../src/app/tenants.js";
import { defineApp } from "../../../src/index.js";

const { TENANTS_VAULT_URL: vault } = process.env;

export default defineApp({
  tenants: multiTenant({
    discover:
      vault === undefined
        ? tenantsFromCatalogue({ database: { from: "env", name: "ONCEBOX_CATALOGUE_URL" } })
        : tenantsFromKeyVault({ vault, prefix: "tenant-" }),
    allow: { kinds: ["postgres"], hosts: ["127.0.0.1", "localhost"] },
  }),
  sources: {
    stripe: { scheme: "stripe", secrets: { from: "env", name: "STRIPE_WEBHOOK_SECRET" }, tenant: "{path}" },
  },
  handlers: {
    "stripe.invoice.paid": ({ messageId }, { store }) => console.log(`${store} handled ${messageId}`),
  },
});
