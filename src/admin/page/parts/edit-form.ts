import { announce, announceFailure } from "../announce.js";
import { api } from "../api.js";
import { element } from "../dom.js";
import { linkTo, type Queue } from "../routes.js";
import type { Key, WholeMessage } from "../wire.js";
import { field } from "./field.js";

/** Only what was changed is sent: the rest stays as it was, to the byte. */
export function editForm(queue: Queue, key: Key, message: WholeMessage): HTMLElement {
  const before = {
    topic: message.topic,
    payload: message.payload ?? "",
    headers: message.headers ? JSON.stringify(message.headers, null, 2) : "",
  };
  const topic = element("input", { id: "edit-topic", value: before.topic, required: true });
  const payload = element("textarea", { id: "edit-payload", rows: 10, spellcheck: "false" });
  payload.value = before.payload;
  const headers = element("textarea", { id: "edit-headers", rows: 4, spellcheck: "false" });
  headers.value = before.headers;
  const problem = element("p", { class: "problem", role: "alert" });

  const submit = async () => {
    problem.textContent = "";
    const changes = {
      ...(topic.value === before.topic ? {} : { topic: topic.value }),
      ...(payload.value === before.payload ? {} : { payload: payload.value }),
      ...(headers.value === before.headers ? {} : { headers: parsedHeaders(headers.value) }),
    };
    const { key: made } = await api.edit(queue, key, changes);
    announce("The edited message is enqueued. This is the new message.");
    location.hash = linkTo("message", queue, { ...made });
  };
  return element(
    "details",
    { class: "edit", id: "edit" },
    element("summary", {}, "Edit and replay"),
    element(
      "form",
      {
        "aria-label": "Edit and replay",
        on: {
          submit(event) {
            event.preventDefault();
            submit().catch((error) => {
              if (error instanceof HeadersProblem) problem.textContent = error.message;
              else announceFailure(error);
            });
          },
        },
      },
      element(
        "p",
        { class: "hint" },
        "A new message with this content is enqueued, and the dead one is archived.",
      ),
      field("Topic", topic),
      field("Payload", payload),
      field("Headers", headers, "As a JSON object of texts. Empty: none."),
      problem,
      element(
        "div",
        { class: "actions" },
        element("button", { type: "submit", class: "primary" }, "Enqueue the edited message"),
      ),
    ),
  );
}

class HeadersProblem extends Error {}

function parsedHeaders(text: string): Readonly<Record<string, string>> | null {
  if (text.trim() === "") return null;
  try {
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    if (isObject && Object.values(value).every((one) => typeof one === "string"))
      return value as Record<string, string>;
  } catch {
    // the same problem
  }
  throw new HeadersProblem('The headers must be a JSON object of texts, such as {"name": "value"}.');
}
