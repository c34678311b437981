import { announce, announceFailure } from "../announce.js";
import { api } from "../api.js";
import { element } from "../dom.js";
import { number } from "../format.js";
import { button } from "../parts/button.js";
import { choice, field } from "../parts/field.js";
import { stateBadge } from "../parts/state-badge.js";
import { table } from "../parts/table.js";
import { when } from "../parts/time.js";
import { type Queue, queueName, queues } from "../routes.js";
import type { View, ViewContext } from "../view.js";
import type { Control } from "../wire.js";

interface QueueControl extends Control {
  readonly queue: Queue;
}

export const pauses: View = {
  title: "Pauses and limits",
  async show(context) {
    const { signal } = context;
    const all = await Promise.all(
      queues.map(async (queue) =>
        (await api.controls(queue, { signal })).map((one): QueueControl => ({ ...one, queue })),
      ),
    );
    return [controlsSection(context, all.flat()), pauseForm(context), limitForm(context)];
  },
};

const nameOf = ({ scope, name }: Control): string => (scope === "queue" ? "everything" : `${scope} ${name}`);

function controlsSection({ reload }: ViewContext, controls: readonly QueueControl[]): HTMLElement {
  const resume = (control: QueueControl) => async () => {
    await api.resume(control.queue, control);
    announce(`Resumed: ${nameOf(control)} of the ${control.queue}.`);
    reload();
  };
  return element(
    "section",
    { class: "card", "aria-labelledby": "controls-title" },
    element("h2", { id: "controls-title" }, "Held back now"),
    table(
      "Pauses and limits",
      [
        { name: "Queue", cell: ({ queue }) => queueName[queue] },
        { name: "What", cell: nameOf },
        {
          name: "How",
          cell: ({ paused, perSecond }) =>
            paused
              ? stateBadge("paused")
              : perSecond === null
                ? stateBadge("ended")
                : [stateBadge("limited"), ` ${number(perSecond)} per second`],
        },
        { name: "Messages held back", class: "number", cell: ({ parked }) => number(parked) },
        { name: "By", cell: ({ by }) => by },
        { name: "Since", cell: ({ at }) => when(at) },
        {
          name: "Action",
          cell: (control) =>
            button("Resume", resume(control), {
              "aria-label": `Resume ${nameOf(control)} of the ${control.queue}`,
            }),
        },
      ],
      controls,
      "Nothing is paused or limited.",
    ),
  );
}

const queueChoice = (id: string) =>
  choice(
    id,
    queues.map((queue) => [queue, queueName[queue]]),
  );

function form(label: string, submit: () => Promise<void>, ...children: readonly Node[]): HTMLElement {
  return element(
    "form",
    {
      class: "filters",
      "aria-label": label,
      on: {
        submit(event) {
          event.preventDefault();
          submit().catch(announceFailure);
        },
      },
    },
    children,
    element("div", { class: "actions" }, element("button", { type: "submit", class: "primary" }, label)),
  );
}

function pauseForm({ reload }: ViewContext): HTMLElement {
  const queue = queueChoice("pause-queue");
  const scope = choice("pause-scope", [
    ["topic", "a topic"],
    ["source", "a source (inbox)"],
    ["queue", "everything"],
  ]);
  const name = element("input", { id: "pause-name", required: true, maxlength: 400 });
  scope.addEventListener("change", () => {
    name.disabled = scope.value === "queue";
  });
  const submit = async () => {
    const target = { scope: scope.value as Control["scope"], name: name.value.trim() };
    await api.pause(queue.value as Queue, target);
    announce("Paused. Handlers that run finish; no new one starts.");
    reload();
  };
  return element(
    "section",
    { class: "card", "aria-labelledby": "pause-title" },
    element("h2", { id: "pause-title" }, "Pause"),
    form("Pause", submit, field("Queue", queue), field("What", scope), field("Its name", name)),
  );
}

function limitForm({ reload }: ViewContext): HTMLElement {
  const queue = queueChoice("limit-queue");
  const topic = element("input", { id: "limit-topic", required: true, maxlength: 400 });
  const perSecond = element("input", {
    id: "limit-rate",
    type: "number",
    min: 0.01,
    max: 100_000,
    step: "any",
    required: true,
  });
  const submit = async () => {
    await api.limit(queue.value as Queue, topic.value.trim(), Number(perSecond.value));
    announce("Limited, over all instances together.");
    reload();
  };
  return element(
    "section",
    { class: "card", "aria-labelledby": "limit-title" },
    element("h2", { id: "limit-title" }, "Limit a topic"),
    form(
      "Limit",
      submit,
      field("Queue", queue),
      field("Topic", topic),
      field("Messages per second", perSecond),
    ),
  );
}
