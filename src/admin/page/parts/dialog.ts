import { type Child, element } from "../dom.js";

export interface DialogOptions {
  readonly title: string;
  readonly content: Child;
  readonly confirm: string;
  readonly danger?: boolean;
  /** Nothing can be confirmed. */
  readonly disabled?: boolean;
}

let number = 0;

/** Asks before something is done. Resolves to whether it was confirmed; Escape means no. */
export function ask({
  title,
  content,
  confirm,
  danger = false,
  disabled = false,
}: DialogOptions): Promise<boolean> {
  return new Promise((resolve) => {
    const id = `dialog-${++number}`;
    const dialog = element(
      "dialog",
      { class: "dialog", "aria-labelledby": id, on: { close: () => finish() } },
      element(
        "form",
        { method: "dialog" },
        element("h2", { id }, title),
        content,
        element(
          "div",
          { class: "actions" },
          // The first button that submits is what Enter does in a field: the cautious one where data would be lost.
          element(
            "button",
            { type: danger ? "submit" : "button", value: "no", on: { click: () => dialog.close("no") } },
            "Cancel",
          ),
          element("button", { value: "yes", class: danger ? "danger" : "primary", disabled }, confirm),
        ),
      ),
    );
    const before = document.activeElement;
    const finish = () => {
      dialog.remove();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
      resolve(dialog.returnValue === "yes");
    };
    document.body.append(dialog);
    dialog.showModal();
  });
}
