/** Writes the tables of providers to docs/webhooks.md, made of the presets. A test compares them. */
import { readFileSync, writeFileSync } from "node:fs";
import { renderedProviders } from "./rendered-providers.js";

const guide = new URL("../docs/webhooks.md", import.meta.url);
writeFileSync(guide, await renderedProviders(readFileSync(guide, "utf8")));
