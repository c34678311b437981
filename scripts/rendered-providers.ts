import { presetNames } from "../src/webhooks/preset-names.js";
import type { DeliveryCheck, PresetAbout } from "../src/webhooks/presets/about.js";
import type { WebhookScheme } from "../src/webhooks/schemes/scheme.js";

interface Provider {
  readonly preset: string;
  readonly scheme: WebhookScheme;
  readonly about: PresetAbout;
}

export const providersStart =
  "<!-- The tables up to the next comment are made of the presets: npm run render:providers -->";
export const providersEnd = "<!-- The end of the tables that are made of the presets -->";

const checkedWith: Readonly<Record<PresetAbout["checked"]["with"], string>> = {
  sdk: "its own library",
  vector: "its published example",
  documentation: "its documentation only",
};

const retryNote = `Rows that name a page were compared with it, or with its text as others quote it, on the day that they name. Where nothing was
found in the provider's documentation, of which not all could be read, a row says what is commonly said of the provider: ask the
provider before you rely on a number. Providers change these numbers without notice.`;

/** Returns the guide with the tables of all presets between the two comments. */
export async function renderedProviders(guide: string): Promise<string> {
  const start = guide.indexOf(providersStart);
  const end = guide.indexOf(providersEnd);
  if (start < 0 || end < start) throw new Error("The guide lacks the comments around its tables.");
  const providers = await allProviders();
  const sections = [
    eventTable(providers),
    `### Retries and time limits\n\n${retryNote}\n\n${retryTable(providers)}`,
    `### What a signature covers\n\n${signatureTable(providers)}`,
  ];
  return [guide.slice(0, start) + providersStart, ...sections, guide.slice(end)].join("\n\n");
}

async function allProviders(): Promise<readonly Provider[]> {
  const all = await Promise.all(
    presetNames.map(async (preset) => {
      const file = new URL(`../src/webhooks/presets/${preset}.ts`, import.meta.url);
      const module = (await import(file.href)) as Record<string, unknown>;
      return { preset, scheme: module[preset] as WebhookScheme, about: module.about as PresetAbout };
    }),
  );
  return all.sort((one, other) => one.about.name.localeCompare(other.about.name, "en"));
}

const eventTable = (providers: readonly Provider[]): string =>
  table(
    ["provider", "preset", "id", "topic", "tenant"],
    providers.map(({ preset, scheme, about }) => [
      about.name,
      code(preset),
      templates(scheme.messageId) || "the hash of the event",
      templates(scheme.topic) || "the source's name",
      templates(scheme.tenant),
    ]),
  );

const retryTable = (providers: readonly Provider[]): string =>
  table(
    ["provider", "sends again", "waits for an answer", "several events in a request", "read in"],
    providers.map(({ about }) => [
      about.name,
      about.retries,
      about.answerWithin ?? "–",
      about.batches ? "yes" : "no",
      readIn(about.checked.delivery),
    ]),
  );

const readIn = ({ page, date, notSeen }: DeliveryCheck): string =>
  page === undefined
    ? `not found in the vendor's documentation, ${date}`
    : `${page}, ${date}${notSeen === undefined ? "" : `; not seen there: ${notSeen}`}`;

const signatureTable = (providers: readonly Provider[]): string =>
  table(
    ["provider", "what is signed", "why the id is unique", "secret", "checked with"],
    providers.map(({ about }) => [
      about.name,
      about.signs,
      about.idIsUnique,
      about.secret,
      `${checkedWith[about.checked.with]}, ${about.checked.date} (${about.checked.title})${byHand(about)}`,
    ]),
  );

const byHand = ({ checked: { byHand: by } }: PresetAbout): string =>
  by === undefined ? "" : `; once by hand with ${by}`;

const code = (text: string): string => `\`${text}\``;

const templates = (given: string | readonly string[] | undefined): string =>
  [given ?? []].flat().map(code).join(" or ");

const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [row(head), `|${"---|".repeat(head.length)}`, ...rows.map(row)].join("\n");

const row = (cells: readonly string[]): string =>
  `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
