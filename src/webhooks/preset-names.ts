import { loaders } from "./presets/index.js";
import type { WebhookScheme } from "./schemes/scheme.js";

/** The name of a provider that a source may give instead of a scheme. */
export type PresetName = keyof typeof loaders;

/** The names of all presets. */
export const presetNames = Object.keys(loaders) as readonly PresetName[];

export const isPresetName = (name: unknown): name is PresetName =>
  (presetNames as readonly unknown[]).includes(name);

/**
 * Loads a preset.
 *
 * @example
 * const stripe = await loadPreset("stripe"); // or: import { stripe } from "oncebox/webhooks/stripe"
 */
export const loadPreset = (name: PresetName): Promise<WebhookScheme> => loaders[name]();
