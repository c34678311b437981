import { describe } from "vitest";
import { typePrograms } from "../../support/type-programs.js";

const head = `
import { type AppDefinition, createInbox, defineApp, env } from "oncebox";
import { openSqlite } from "oncebox/sqlite";
import { createWebhookRoute } from "oncebox/webhooks";
import { stripe } from "oncebox/webhooks/stripe";
const inbox = createInbox(openSqlite({ file: ":memory:" }));
`;

const right = `
defineApp({ sources: { stripe: { secrets: env("A") }, github: { secrets: ["a", env("B")], topic: "{json:action}" } } });
defineApp({ sources: { shop: { scheme: "stripe", secrets: env("A") }, other: { scheme: stripe, secrets: "x" } } });
defineApp({ handlers: { "stripe.invoice.paid": ({ source }) => console.log(source) } });
const definition: AppDefinition = {};
defineApp(definition);
createWebhookRoute({ inbox, sources: { stripe: { secrets: "x" }, shop: { scheme: "shopify", secrets: "y" } } });
`;

describe("the types of sources", () => {
  typePrograms({
    id: "ADD-22",
    head,
    right,
    wrong: {
      "a source of an app whose name is no preset's, without a scheme": [
        `defineApp({ sources: { shop: { secrets: env("A") } } });`,
        /Property 'scheme' is missing/,
      ],
      "a source of a route whose name is no preset's, without a scheme": [
        `createWebhookRoute({ inbox, sources: { shop: { secrets: "x" } } });`,
        /Property 'scheme' is missing/,
      ],
      "a misspelt option of a source without a scheme": [
        `defineApp({ sources: { stripe: { secrts: env("A") } } });`,
        /'secrts' does not exist in type/,
      ],
      "a misspelt option of a source with a scheme": [
        `defineApp({ sources: { shop: { scheme: "stripe", secrets: env("A"), topics: "{json:a}" } } });`,
        /'topics' does not exist in type/,
      ],
      "a misspelt option of an app": [`defineApp({ source: {} });`, /'source' does not exist in type/],
      "the name of a provider that does not exist": [
        `defineApp({ sources: { shop: { scheme: "stripes", secrets: env("A") } } });`,
        /Type '"stripes"' is not assignable/,
      ],
    },
  });
});
