/** An app with many tenants, as infra/aws/tenants-catalogue.yml and tenants-secrets.yml describe them. */
import { tenantsFromSecretsManager } from "../../src/adapters/aws/index.js";
import { multiTenant, tenantsFromCatalogue } from "../../src/app/tenants.js";
import { defineApp } from "../../src/index.js";

const { TENANTS_ARE_IN: place, TENANTS_PREFIX: prefix = "", CATALOGUE_SECRET: id = "" } = process.env;

export default defineApp({
  tenants: multiTenant({
    discover:
      place === "secrets"
        ? tenantsFromSecretsManager({ prefix })
        : tenantsFromCatalogue({ database: { from: "aws-secrets-manager", id } }),
    allow: { kinds: ["postgres"], hosts: ["127.0.0.1", "localhost"] },
  }),
  handlers: () => ({ "order.placed": ({ messageId }) => console.log(`handled ${messageId}`) }),
});
