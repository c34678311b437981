/** A value as JSON, to be searched. A payload that came in-process may be something that JSON cannot hold. */
export function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "";
  } catch {
    return "";
  }
}
