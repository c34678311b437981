import { announceFailure } from "../announce.js";
import { type Attributes, type Child, element } from "../dom.js";

export interface ButtonOptions extends Omit<Attributes, "on"> {
  readonly kind?: "primary" | "danger" | "quiet" | undefined;
}

/** Does its work once at a time, and says what went wrong. */
export function button(
  label: Child,
  work: () => Promise<void> | void,
  options: ButtonOptions = {},
): HTMLButtonElement {
  const { kind, ...attributes } = options;
  const made = element(
    "button",
    { type: "button", class: kind, ...attributes, on: { click: () => void run() } },
    label,
  );
  const run = async () => {
    if (made.getAttribute("aria-disabled") === "true") return;
    made.setAttribute("aria-disabled", "true"); // it keeps the focus, which a disabled one would lose
    try {
      await work();
    } catch (error) {
      announceFailure(error);
    } finally {
      made.removeAttribute("aria-disabled");
    }
  };
  return made;
}
