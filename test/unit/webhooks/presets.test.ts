import { readdirSync } from "node:fs";
import { expect, it } from "vitest";
import { loadPreset, presetNames, type WebhookScheme } from "../../../src/webhooks/index.js";
import { describedSamples } from "../../support/presets/describe-preset.js";

// One file for all presets: each would load the route, the inbox and SQLite again, which takes longer than its tests.
// Run one of them with -t: npx vitest run test/unit/webhooks/presets.test.ts -t stripe
const folder = new URL("./presets/", import.meta.url);
for (const file of readdirSync(folder)) await import(new URL(file, folder).href);

it.each(presetNames)(
  "FUN-01 FUN-02 %s has a test, with a batch that is cut again where it is split",
  async (name) => {
    const preset: WebhookScheme = await loadPreset(name);
    const samples = describedSamples.get(preset) ?? [];
    expect(samples.length).toBeGreaterThan(0);
    if (preset.split !== undefined) expect(samples.some(({ cutAgain }) => cutAgain !== undefined)).toBe(true);
  },
);
