import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { loadPreset, presetNames, type WebhookScheme } from "../../../src/webhooks/index.js";
import { webhookDefaults } from "../../../src/webhooks/route-options.js";

const guide = readFileSync(new URL("../../../docs/webhooks.md", import.meta.url), "utf8");
const folder = new URL("../../../src/webhooks/presets/", import.meta.url);

/** The rows of the table below a heading, by the provider in their first column. */
function tableBelow(heading: string): ReadonlyMap<string, readonly string[]> {
  const [, below = ""] = guide.split(`\n${heading}\n`);
  const [table = ""] = /^\|.*(\n\|.*)*/m.exec(below) ?? [];
  const rows = table.split("\n").slice(2);
  return new Map(
    rows.map((row) => {
      const [provider = "", ...cells] = row.split(/(?<!\\)\|/).slice(1, -1);
      return [provider.trim(), cells.map((cell) => cell.trim().replaceAll("\\|", "|"))];
    }),
  );
}

const events = tableBelow("## All presets");
const retries = tableBelow("### Retries and time limits");
const signatures = tableBelow("### What a signature covers");
const date = "20\\d\\d-(0[1-9]|1[0-2])(-\\d\\d)?";

function providerOf(preset: string): string {
  const row = [...events].find(([, [name]]) => name === `\`${preset}\``);
  expect(row, `${preset} is in the table of all presets`).toBeDefined();
  return row![0];
}

const templates = (given: WebhookScheme["topic"]): string =>
  [given ?? []]
    .flat()
    .map((text) => `\`${text}\``)
    .join(" or ");

describe("the presets", () => {
  it("are one file each, and all can be named", () => {
    const files = readdirSync(folder).map((file) => file.replace(/\.ts$/, ""));
    expect(files.filter((file) => file !== "index").sort()).toEqual([...presetNames].sort());
  });

  it("are in the guide, and nothing else is", () => {
    expect([...events.values()].map(([name]) => name).sort()).toEqual(
      presetNames.map((name) => `\`${name}\``).sort(),
    );
    expect([...retries.keys()]).toEqual([...events.keys()]);
    expect([...signatures.keys()]).toEqual([...events.keys()]);
  });

  it.each(presetNames)("%s has the id, topic and tenant that the guide says", async (preset) => {
    const { messageId, topic, tenant } = await loadPreset(preset);
    expect(events.get(providerOf(preset))).toEqual([
      `\`${preset}\``,
      templates(messageId) || "the hash of the event",
      templates(topic) || "the source's name",
      templates(tenant),
    ]);
  });

  it.each(presetNames)("%s answers before its provider gives up", async (preset) => {
    const { receiveMs = webhookDefaults.receiveMs } = await loadPreset(preset);
    const [, waits = ""] = retries.get(providerOf(preset))!;
    expect(waits).toMatch(/^(\d+ s|–)$/);
    expect(receiveMs).toBeLessThan(waits === "–" ? Infinity : Number.parseInt(waits, 10) * 1_000);
  });

  it.each(presetNames)("the guide says of %s what people must know, and when that was checked", (preset) => {
    const [sendsAgain, , severalEvents, readIn] = retries.get(providerOf(preset))!;
    const [signed, unique, secret, checkedWith] = signatures.get(providerOf(preset))!;
    for (const sentence of [sendsAgain, signed, unique]) expect(sentence).toMatch(/\.$/);
    expect(secret).not.toBe("");
    expect(severalEvents).toMatch(/^(yes|no)$/);
    expect(readIn).toMatch(new RegExp(`^[^,]+.*, ${date}(; not seen there: .+)?$`));
    expect(checkedWith).toMatch(
      new RegExp(`^its (own library|published example|documentation only), ${date} \\(.+\\)`),
    );
  });
});
