import { element } from "./dom.js";

/** Read out by screen readers when it changes, and shown for some seconds. */
const region = element("div", { id: "announcements", class: "announcement", role: "status" });
let hiding: ReturnType<typeof setTimeout> | undefined;

export const announcementRegion = (): Node => region;

export function announce(text: string, kind: "done" | "failed" = "done"): void {
  region.textContent = text;
  region.dataset.kind = kind;
  clearTimeout(hiding);
  hiding = setTimeout(() => region.replaceChildren(), kind === "failed" ? 12_000 : 6_000);
}

/** Says what went wrong, unless the call was given up because another view is shown. */
export function announceFailure(error: unknown): void {
  if (!isAbort(error)) announce(reasonOf(error), "failed");
}

export const isAbort = (error: unknown): boolean =>
  error instanceof DOMException && error.name === "AbortError";

export const reasonOf = (error: unknown): string =>
  error instanceof TypeError ? "The server cannot be reached." : (error as Error).message;
