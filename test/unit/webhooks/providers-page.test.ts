import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { renderedProviders } from "../../../scripts/rendered-providers.js";
import { type WebhookScheme, webhookDefaults } from "../../../src/webhooks/index.js";
import { presetNames } from "../../../src/webhooks/preset-names.js";
import type { DeliveryCheck, PresetAbout } from "../../../src/webhooks/presets/about.js";

const guide = readFileSync(new URL("../../../docs/webhooks.md", import.meta.url), "utf8");
const folder = new URL("../../../src/webhooks/presets/", import.meta.url);

const waitsMs = ({ answerWithin }: PresetAbout): number =>
  answerWithin === undefined ? Infinity : Number(/^(\d+) s/.exec(answerWithin)?.[1]) * 1_000;

describe("the presets", () => {
  it("are in the guide with what they say of themselves: npm run render:providers", async () => {
    expect(guide).toBe(await renderedProviders(guide));
  });

  it("are one file each, and all can be named", () => {
    const files = readdirSync(folder).map((file) => file.replace(/\.ts$/, ""));
    expect(files.filter((file) => file !== "about" && file !== "index").sort()).toEqual(
      [...presetNames].sort(),
    );
  });

  it.each(presetNames)("%s says what people must know, and when that was checked", async (name) => {
    const module = (await import(new URL(`${name}.ts`, folder).href)) as Record<string, unknown>;
    const about = module.about as PresetAbout;
    const scheme = module[name] as WebhookScheme;
    for (const text of [about.name, about.secret, about.checked.title]) expect(text).not.toBe("");
    for (const sentence of [about.retries, about.signs, about.idIsUnique]) expect(sentence).toMatch(/\.$/);
    const receiveMs = scheme.receiveMs ?? webhookDefaults.receiveMs;
    expect(receiveMs, "our 503 comes before the provider gives up").toBeLessThan(waitsMs(about));
    expect(about.checked.date).toMatch(/^20\d\d-(0[1-9]|1[0-2])(-\d\d)?$/);
  });

  it.each(presetNames)("%s says on which page its retries were read, or that none says so", async (name) => {
    const { about } = (await import(new URL(`${name}.ts`, folder).href)) as { about: PresetAbout };
    const [, rows = ""] = guide.split("### Retries and time limits");
    const row = rows.split("\n").find((line) => line.startsWith(`| ${about.name} |`));
    const { page, date, notSeen } = about.checked.delivery as DeliveryCheck;
    const where = page ?? "not found in the vendor's documentation";
    expect(row).toContain(
      `| ${where}, ${date}${notSeen === undefined ? "" : `; not seen there: ${notSeen}`} |`,
    );
    expect(date).toMatch(/^20\d\d-(0[1-9]|1[0-2])(-\d\d)?$/);
    expect(page).not.toBe("");
    expect(page === undefined && notSeen !== undefined, "what a page lacks needs a page").toBe(false);
  });
});
