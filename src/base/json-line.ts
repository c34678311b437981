import { escapeControls } from "./escape-controls.js";

/** A value as one line of JSON that is safe to show. */
export const jsonLine = (value: unknown): string => escapeControls(JSON.stringify(value));
