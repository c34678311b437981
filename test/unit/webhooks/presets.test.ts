import { readdirSync } from "node:fs";

// One file for all presets: each would load the route, the inbox and SQLite again, which takes longer than its tests.
// Run one of them with -t: npx vitest run test/unit/webhooks/presets.test.ts -t stripe
const folder = new URL("./presets/", import.meta.url);
for (const file of readdirSync(folder)) await import(new URL(file, folder).href);
