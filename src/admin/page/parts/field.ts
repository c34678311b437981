import { type Child, element } from "../dom.js";

type Control = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

/** A control under its label. The control has an id. */
export const field = (label: string, control: Control, hint?: Child): HTMLElement => {
  if (hint !== undefined) control.setAttribute("aria-describedby", `${control.id}-hint`);
  return element(
    "div",
    { class: "field" },
    element("label", { for: control.id }, label),
    control,
    hint !== undefined && element("p", { id: `${control.id}-hint`, class: "hint" }, hint),
  );
};

export const choice = (
  id: string,
  options: readonly (readonly [value: string, label: string])[],
  selected = "",
): HTMLSelectElement =>
  element(
    "select",
    { id, name: id },
    options.map(([value, label]) => element("option", { value, selected: value === selected }, label)),
  );
