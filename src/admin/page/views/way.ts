import { api } from "../api.js";
import { element } from "../dom.js";
import { field } from "../parts/field.js";
import { waySteps } from "../parts/way-steps.js";
import { linkTo } from "../routes.js";
import type { View } from "../view.js";

export const way: View = {
  title: "Way of an event",
  async show({ route, signal }) {
    const id = route.query.id ?? "";
    return [searchForm(id), ...(id === "" ? [] : [await found(id, signal)])];
  },
};

async function found(id: string, signal: AbortSignal): Promise<HTMLElement> {
  const steps = await api.way(id, { signal });
  if (steps.length === 0) return element("p", { class: "none" }, `No message has the id ${id}.`);
  return element("section", { class: "card", "aria-label": "Way" }, waySteps(steps));
}

function searchForm(id: string): HTMLElement {
  const input = element("input", { id: "event-id", name: "id", value: id, required: true, maxlength: 400 });
  return element(
    "form",
    {
      class: "filters",
      role: "search",
      on: {
        submit(event) {
          event.preventDefault();
          location.hash = linkTo("way", undefined, { id: input.value.trim() });
        },
      },
    },
    field("Message id or correlation id", input),
    element("div", { class: "actions" }, element("button", { type: "submit", class: "primary" }, "Find")),
  );
}
