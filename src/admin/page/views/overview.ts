import { api, remember, remembered } from "../api.js";
import { chart } from "../charts.js";
import { announceFailure, element, repeat, replaceContent } from "../dom.js";
import { count, duration, number } from "../format.js";
import { button, choice, stateBadge, stateLabel, table, when } from "../parts.js";
import { linkTo, type Queue, queueName, queues } from "../routes.js";
import type { View } from "../shell.js";
import {
  type Activity,
  type Control,
  inboxPhases,
  type Phase,
  phases,
  type Stats,
  type TraceStep,
  type UnhandledTopic,
} from "../wire.js";
import { traceSteps } from "./trace.js";

const minute = 60_000;
const ranges = [15 * minute, 60 * minute, 6 * 60 * minute, 24 * 60 * minute];
const buckets = 30;
const refreshMs = 3_000;
let sinceMs = ranges[1]!;

interface QueueNumbers {
  readonly stats: Stats;
  readonly activity: Activity;
  readonly controls: readonly Control[];
  readonly unhandled: readonly UnhandledTopic[];
}

export const overview: View = {
  title: "Overview",
  async show({ signal }) {
    const sections = new Map(queues.map((queue) => [queue, section(queue)]));
    const update = async () => {
      await Promise.all(
        queues.map(async (queue) => fill(sections.get(queue)!, queue, await read(queue, signal))),
      );
      return true;
    };
    const range = choice(
      "range",
      ranges.map((ms) => [String(ms), duration(ms)]),
      String(sinceMs),
    );
    range.addEventListener("change", () => {
      sinceMs = Number(range.value);
      void update().catch(announceFailure);
    });
    await update();
    void repeat(signal, refreshMs, update);
    return [
      ...sampleStory(signal),
      element("p", { class: "range" }, element("label", { for: "range" }, "Show the last"), range),
      element(
        "div",
        { class: "columns" },
        [...sections.values()].map(({ node }) => node),
      ),
    ];
  },
};

async function read(queue: Queue, signal: AbortSignal): Promise<QueueNumbers> {
  const [stats, activity, controls, unhandled] = await Promise.all([
    api.stats(queue, { signal }),
    api.activity(queue, { sinceMs, buckets }, { signal }),
    api.controls(queue, { signal }),
    api.unhandled(queue, { signal }),
  ]);
  return { stats, activity, controls, unhandled };
}

/** The parts of a queue's section that change. */
function section(queue: Queue) {
  const numbers = element("div");
  const drawings = element("div");
  const topics = element("div");
  const title = element("h2", { id: `${queue}-title` }, queueName[queue]);
  const attributes = { class: "card", id: queue, "aria-labelledby": title.id };
  return {
    numbers,
    drawings,
    topics,
    node: element("section", attributes, title, numbers, drawings, topics),
  };
}

function fill(
  { numbers, drawings, topics }: ReturnType<typeof section>,
  queue: Queue,
  { stats, activity, controls, unhandled }: QueueNumbers,
): void {
  replaceContent(numbers, figures(queue, stats), controls.length > 0 && paused(queue, controls));
  replaceContent(topics, unhandled.length > 0 && withoutHandler(queue, unhandled));
  // numbers that somebody reads hold still
  if (drawings.querySelector("details[open]") !== null) return;
  replaceContent(
    drawings,
    charts(queue, activity),
    activity.truncated &&
      element("p", { class: "hint" }, "There is more than the charts can read: older numbers are too low."),
  );
}

function figures(queue: Queue, { phases: numbers, due, oldestDueAgeMs }: Stats): HTMLElement {
  const figure = (name: string, value: string, link?: string, kind?: string) =>
    element(
      "div",
      { class: kind },
      element("dt", {}, name),
      element(
        "dd",
        {},
        link === undefined ? value : element("a", { href: link, id: `${queue}-${name}` }, value),
      ),
    );
  return element(
    "dl",
    { class: "figures" },
    figure("Due now", number(due)),
    figure("Oldest waits", oldestDueAgeMs === null ? "–" : duration(oldestDueAgeMs)),
    shownPhases(numbers).map((phase) =>
      figure(
        stateLabel(phase),
        number(numbers[phase]),
        phase === "dead" ? linkTo("dead", queue) : linkTo("messages", queue, { state: phase }),
        phase === "dead" && numbers.dead > 0 ? "bad" : undefined,
      ),
    ),
  );
}

/** Phases of the inbox only where it has such messages. */
const shownPhases = (numbers: Stats["phases"]): readonly Phase[] => [
  ...phases,
  ...inboxPhases.filter((phase) => numbers[phase] > 0),
];

const paused = (queue: Queue, controls: readonly Control[]): HTMLElement =>
  element(
    "p",
    { class: "controls" },
    controls.map(({ scope, name, paused, perSecond }) => [
      stateBadge(paused ? "paused" : perSecond === null ? "ended" : "limited"),
      ` ${scope === "queue" ? "everything" : `${scope} ${name}`}${perSecond === null ? "" : `, ${perSecond} per second`} `,
    ]),
    element("a", { href: linkTo("pauses"), id: `${queue}-pauses` }, "Pauses"),
  );

/** What a provider sends and the app does not handle. */
const withoutHandler = (queue: Queue, topics: readonly UnhandledTopic[]): HTMLElement =>
  element(
    "div",
    { id: `${queue}-unhandled` },
    element("h3", {}, "Topics without a handler"),
    element(
      "p",
      { class: "hint" },
      "Their messages were acknowledged. Handle a topic, or name it in ignore.",
    ),
    table(
      `${queueName[queue]}: topics without a handler`,
      [
        { name: "Topic", cell: ({ topic }) => topic },
        { name: "Acknowledged", class: "number", cell: ({ messages }) => number(messages) },
        { name: "Last seen", cell: ({ lastSeenAt }) => when(lastSeenAt) },
      ],
      topics,
      "",
    ),
  );

function charts(queue: Queue, { buckets }: Activity): readonly HTMLElement[] {
  if (buckets.length === 0) return [];
  const times = [...buckets.map(({ from }) => new Date(from)), new Date(buckets.at(-1)!.until)];
  const sum = (name: "enqueued" | "done" | "dead") => buckets.reduce((total, one) => total + one[name], 0);
  const each = duration(times[1]!.getTime() - times[0]!.getTime());
  const over = `in the last ${duration(sinceMs)}`;
  const first = queue === "inbox" ? "Received" : "Enqueued";
  const unfinished = buckets.map((one) => one.unfinished);
  return [
    chart({
      id: `${queue}-throughput`,
      title: `${queueName[queue]}: messages per ${each}`,
      summary: `${number(sum("enqueued"))} ${first.toLowerCase()}, ${number(sum("done"))} done and ${number(sum("dead"))} dead ${over}.`,
      times,
      series: [
        { name: first, kind: "arrived", values: buckets.map(({ enqueued }) => enqueued) },
        { name: "Done", kind: "done", values: buckets.map(({ done }) => done) },
        { name: "Dead", kind: "dead", values: buckets.map(({ dead }) => dead) },
      ],
    }),
    chart({
      id: `${queue}-unfinished`,
      title: `${queueName[queue]}: unfinished messages`,
      summary: `${count(unfinished.at(-1)!, "message")} neither done nor dead now; ${number(Math.max(...unfinished))} at most ${over}.`,
      times,
      filled: true,
      series: [{ name: "Unfinished", kind: "unfinished", values: unfinished }],
    }),
  ];
}

/** `npm start` sends itself a webhook and names it in its link: the newcomer sees it arrive, be handled and lead to a message. */
function sampleStory(signal: AbortSignal): readonly HTMLElement[] {
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
    const found = await api.trace(id, { signal });
    const said = storyOf(id, found);
    if (text.textContent !== said) text.textContent = said;
    replaceContent(steps, traceSteps(found));
    return found.length <= 1 || found.some(({ doneAt }) => doneAt === null);
  };
  void update().catch(announceFailure);
  void repeat(signal, 1_000, update);
  return [section];
}

function storyOf(id: string, steps: readonly TraceStep[]): string {
  const [received] = steps.filter(({ queue }) => queue === "inbox");
  const sent = steps.filter(({ queue }) => queue === "outbox");
  if (received === undefined) return `Waiting for the webhook ${id}.`;
  if (received.doneAt === null) return `The webhook ${id} has arrived and is stored. Its handler runs next.`;
  if (sent.length === 0) return `The webhook ${id} has arrived and was handled.`;
  if (sent.some(({ doneAt }) => doneAt === null))
    return `The webhook ${id} was handled. What its handler enqueued is being published.`;
  return `The webhook ${id} arrived, was handled once although it was sent twice, and its receipt has left.`;
}
