import { loadPreset } from "../../../src/webhooks/preset-names.js";

/** A function that has no route, and loads a preset by its name. */
export const topicOf = async (name: "stripe" | "github") => (await loadPreset(name)).topic;
