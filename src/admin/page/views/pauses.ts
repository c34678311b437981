import { api, type ControlTarget } from "../api.js";
import { announce, type Child, element } from "../dom.js";
import { conditionTexts, count, number } from "../format.js";
import { operationName } from "../operations.js";
import { button, card, choice, field, form, stateBadge, table, when } from "../parts.js";
import { type Queue, queueName, queues } from "../routes.js";
import type { View, ViewContext } from "../shell.js";
import type { Control, Operation } from "../wire.js";

interface QueueControl extends Control {
  readonly queue: Queue;
}

export const pauses: View = {
  title: "Pauses and limits",
  async show(context) {
    const { signal } = context;
    const [controls, operations] = await Promise.all([
      ofQueues(async (queue) =>
        (await api.controls(queue, { signal })).map((one): QueueControl => ({ ...one, queue })),
      ),
      ofQueues((queue) => api.operations(queue, { signal })),
    ]);
    const changes = operations
      .filter(({ action }) => controlActions.includes(action))
      .sort((a, b) => b.at.localeCompare(a.at));
    return [
      controlsSection(context, controls),
      pauseForm(context),
      limitForm(context),
      ...(changes.length === 0 ? [] : [changesSection(changes)]),
    ];
  },
};

const ofQueues = async <T>(read: (queue: Queue) => Promise<readonly T[]>): Promise<readonly T[]> =>
  (await Promise.all(queues.map(read))).flat();

const controlActions: readonly Operation["action"][] = ["pause", "resume", "limit"];

const controlsSection = (context: ViewContext, controls: readonly QueueControl[]): HTMLElement =>
  card(
    { id: "controls", title: "Now" },
    table(
      "Pauses and limits",
      [
        { name: "Queue", cell: ({ queue }) => queueName[queue] },
        { name: "What", cell: nameOf },
        { name: "How", cell: how },
        { name: "By", cell: ({ by }) => by },
        { name: "Since", cell: ({ at }) => when(at) },
        { name: "Action", cell: (control) => endButtons(context, control) },
      ],
      controls,
      "Nothing is paused or limited.",
    ),
  );

const nameOf = ({ scope, name }: ControlTarget): string =>
  scope === "queue" ? "everything" : `${scope} ${name}`;

function how({ paused, perSecond, waiting }: Control): Child {
  return [
    paused && stateBadge("paused"),
    " ",
    perSecond !== null && [stateBadge("limited"), ` ${number(perSecond)} per second`],
    waiting > 0 && `, ${count(waiting, "message")} waiting`,
  ];
}

function endButtons({ reload }: ViewContext, control: QueueControl): Child {
  const { queue, paused, perSecond } = control;
  const whose = `${nameOf(control)} of the ${queue}`;
  const resume = async () => {
    await api.resume(queue, control);
    announce(`Resumed: ${whose}.`);
    reload();
  };
  const removeLimit = async () => {
    await api.limit(queue, control, null);
    announce(`No limit any more: ${whose}.`);
    reload();
  };
  return element(
    "div",
    { class: "actions" },
    paused && button("Resume", resume, { "aria-label": `Resume ${whose}` }),
    perSecond !== null && button("Remove limit", removeLimit, { "aria-label": `Remove limit of ${whose}` }),
  );
}

function pauseForm({ reload }: ViewContext): HTMLElement {
  const { fields, queue, target } = targetFields("pause");
  const submit = async () => {
    await api.pause(queue(), target());
    announce(`Paused: ${nameOf(target())}. Handlers that run finish; no new one starts.`);
    reload();
  };
  return card(
    { id: "pause", title: "Pause" },
    form({ class: "filters", "aria-label": "Pause" }, { label: "Pause", submit }, fields),
  );
}

function limitForm({ reload }: ViewContext): HTMLElement {
  const { fields, queue, target } = targetFields("limit");
  const attributes = { id: "limit-rate", type: "number", min: 0.001, step: "any", required: true };
  const perSecond = element("input", attributes);
  const submit = async () => {
    await api.limit(queue(), target(), Number(perSecond.value));
    announce(`Limited: ${nameOf(target())}, over all instances together.`);
    reload();
  };
  return card(
    { id: "limit", title: "Limit" },
    form(
      { class: "filters", "aria-label": "Limit" },
      { label: "Limit", submit },
      fields,
      field("Messages per second", perSecond),
    ),
  );
}

/** Queue, scope and name, and what they say together. */
function targetFields(prefix: string) {
  const queue = choice(
    `${prefix}-queue`,
    queues.map((one) => [one, queueName[one]]),
  );
  const scope = choice(`${prefix}-scope`, [
    ["topic", "a topic"],
    ["source", "a source (inbox)"],
    ["queue", "everything"],
  ]);
  const name = element("input", { id: `${prefix}-name`, required: true, maxlength: 400 });
  scope.addEventListener("change", () => {
    name.disabled = scope.value === "queue";
  });
  return {
    fields: [field("Queue", queue), field("What", scope), field("Its name", name)],
    queue: () => queue.value as Queue,
    target: (): ControlTarget => ({ scope: scope.value as Control["scope"], name: name.value.trim() }),
  };
}

/** Who set and ended pauses and limits: the newest first. */
const changesSection = (changes: readonly Operation[]): HTMLElement =>
  card(
    { id: "changes", title: "Set and ended" },
    table(
      "Pauses and limits that were set and ended",
      [
        { name: "Queue", cell: ({ queue }) => queueName[queue] },
        { name: "What", cell: operationName },
        {
          name: "Which",
          class: "wide",
          cell: ({ filter }) => conditionTexts(filter).join(", ") || "everything",
        },
        { name: "By", cell: ({ by }) => by },
        { name: "When", cell: ({ at }) => when(at) },
      ],
      changes,
      "",
    ),
  );
