import { announceFailure } from "../announce.js";
import { api } from "../api.js";
import { element, replaceContent } from "../dom.js";
import { repeat } from "../repeat.js";
import { remember, remembered } from "../session.js";
import type { WayStep } from "../wire.js";
import { button } from "./button.js";
import { waySteps } from "./way-steps.js";

/** `npm start` sends itself a webhook and names it in its link: the newcomer sees it arrive, be handled and lead to a message. */
export function sampleStory(signal: AbortSignal): readonly HTMLElement[] {
  const id = remembered("sample");
  if (id === "") return [];
  const text = element("p", { role: "status" });
  const steps = element("div");
  const section = element(
    "section",
    { class: "card story", "aria-labelledby": "story-title" },
    element("h2", { id: "story-title" }, "The sample webhook"),
    text,
    steps,
    button("Hide", () => {
      remember("sample", "");
      section.remove();
      document.querySelector("h1")?.focus();
    }),
  );
  const update = async () => {
    if (remembered("sample") === "") return false;
    try {
      const found = await api.way(id, { signal });
      const said = storyOf(id, found);
      if (text.textContent !== said) text.textContent = said;
      replaceContent(steps, waySteps(found));
      return found.length > 1 && found.every(({ doneAt }) => doneAt !== null) ? false : undefined;
    } catch (error) {
      announceFailure(error);
      return undefined;
    }
  };
  void update();
  void repeat(signal, 1_000, update);
  return [section];
}

function storyOf(id: string, steps: readonly WayStep[]): string {
  const [received] = steps.filter(({ queue }) => queue === "inbox");
  const sent = steps.filter(({ queue }) => queue === "outbox");
  if (received === undefined) return `Waiting for the webhook ${id}.`;
  if (received.doneAt === null) return `The webhook ${id} has arrived and is stored. Its handler runs next.`;
  if (sent.length === 0) return `The webhook ${id} has arrived and was handled.`;
  if (sent.some(({ doneAt }) => doneAt === null))
    return `The webhook ${id} was handled. What its handler enqueued is being published.`;
  return `The webhook ${id} arrived, was handled once although it was sent twice, and its receipt has left.`;
}
