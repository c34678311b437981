import { InvalidArgumentError } from "../errors.js";
import { isPresetName, loadPreset, presetNames } from "./preset-names.js";
import { overridableFields, type ReadScheme, readScheme } from "./schemes/read-scheme.js";
import type { WebhookScheme } from "./schemes/scheme.js";
import type { LoadedSource, WebhookSource } from "./sources.js";

type Sources<Source> = Readonly<Record<string, Source>>;

/** The sources whose schemes are at hand, those that name a preset, and what is wrong with the names. */
export function dividedSources(given: Sources<WebhookSource>): {
  readonly loaded: Sources<LoadedSource>;
  readonly named: Sources<WebhookSource>;
  readonly problems: readonly string[];
} {
  const loaded: [name: string, LoadedSource][] = [];
  const named: [name: string, WebhookSource][] = [];
  const problems: string[] = [];
  const all = Object.entries(given ?? {});
  if (all.length === 0) problems.push("there is no source");
  for (const [name, source] of all) {
    const scheme: unknown = source?.scheme;
    if (typeof scheme !== "string") loaded.push([name, source as LoadedSource]);
    else if (isPresetName(scheme)) named.push([name, source]);
    else problems.push(`${name}: ${unknownPreset(scheme)}`);
  }
  return { loaded: Object.fromEntries(loaded), named: Object.fromEntries(named), problems };
}

export const withPresets = async (named: Sources<WebhookSource>): Promise<Sources<LoadedSource>> =>
  Object.fromEntries(
    await Promise.all(
      Object.entries(named).map(async ([name, source]) => [
        name,
        { ...source, scheme: await schemeOf(source.scheme) },
      ]),
    ),
  );

/** Returns the scheme itself, or the preset of that name. */
export async function schemeOf(scheme: string | WebhookScheme): Promise<WebhookScheme> {
  if (typeof scheme !== "string") return scheme;
  if (!isPresetName(scheme)) throw new InvalidArgumentError(`Webhooks: ${unknownPreset(scheme)}.`);
  return loadPreset(scheme);
}

/**
 * Returns what reads the schemes of these sources. Presets as they are were checked by the tests, so that an app with
 * nothing else does not load the code that checks schemes.
 */
export async function schemeReader(sources: Sources<WebhookSource>): Promise<ReadScheme> {
  const isPreset = (source: WebhookSource): boolean =>
    isPresetName(source?.scheme) &&
    [...overridableFields, "handshakes" as const].every((field) => source[field] === undefined);
  if (Object.values(sources).every(isPreset)) return readScheme;
  return (await import("./schemes/check-scheme.js")).checkScheme;
}

const unknownPreset = (name: string): string =>
  `the scheme ${JSON.stringify(name)} is not known; known: ${presetNames.join(", ")}`;
