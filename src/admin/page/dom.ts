/** A string becomes a text node, never markup. */
export type Child = Node | string | number | null | undefined | false | readonly Child[];

type Listeners = {
  readonly [Name in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[Name]) => void;
};

export interface Attributes {
  readonly on?: Listeners;
  readonly [name: string]: string | number | boolean | undefined | Listeners;
}

/** Makes an element. `true` sets an attribute without a value; `false` and undefined leave it out. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  const { on = {}, ...plain } = attributes;
  setAttributes(made, plain as Omit<Attributes, "on">);
  for (const [name, listener] of Object.entries(on)) made.addEventListener(name, listener as EventListener);
  append(made, children);
  return made;
}

export function svgElement(
  tag: keyof SVGElementTagNameMap,
  attributes: Omit<Attributes, "on"> = {},
  ...children: readonly Child[]
): SVGElement {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAttributes(made, attributes);
  append(made, children);
  return made;
}

function setAttributes(target: Element, attributes: Omit<Attributes, "on">): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    target.setAttribute(name, value === true ? "" : String(value));
  }
}

function append(parent: Node, children: readonly Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(parent, child);
    else parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Puts new content in place of the old. The focus stays where it was when the new content has an element of the same id. */
export function replaceContent(parent: Element, ...children: readonly Child[]): void {
  const focused = parent.contains(document.activeElement) ? document.activeElement?.id : undefined;
  const open = new Set([...parent.querySelectorAll("details[open][id]")].map(({ id }) => id));
  parent.replaceChildren();
  append(parent, children);
  for (const details of parent.querySelectorAll<HTMLDetailsElement>("details[id]"))
    if (open.has(details.id)) details.open = true;
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

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

/** Repeats some work until the signal is aborted, or the work returns false. A hidden tab waits. */
export async function repeat(
  signal: AbortSignal,
  everyMs: number,
  work: () => Promise<boolean>,
): Promise<void> {
  for (;;) {
    await pause(everyMs, signal);
    if (signal.aborted) return;
    if (document.hidden) continue;
    const goesOn = await work().catch((error) => {
      announceFailure(error);
      return true;
    });
    if (!goesOn) return;
  }
}

/** Resolves after the time, or at once when the signal is aborted. */
export const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    const stop = () => {
      clearTimeout(timer);
      resolve();
    };
    signal.addEventListener("abort", stop, { once: true });
  });
