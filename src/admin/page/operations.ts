import { ApiError, api } from "./api.js";
import { announce, type Child, element, isAbort, pause, reasonOf } from "./dom.js";
import { conditionTexts, count, number } from "./format.js";
import { button, table, when } from "./parts.js";
import type { Queue } from "./routes.js";
import type { ViewContext } from "./shell.js";
import { actionNames, type BulkAction, type Operation } from "./wire.js";

/** An operation is done batch by batch by this page. When the tab is closed, the rest can be resumed. */
interface Running {
  readonly queue: Queue;
  readonly stop: AbortController;
  readonly progress: ReturnType<typeof progressOf>;
  operation: BulkOperation;
}

const maxBatchSize = 200;
const running = new Map<string, Running>();
const region = element("section", { class: "running", "aria-label": "Running operations", hidden: true });

export const runningRegion = (): HTMLElement => region;

const verbs: Readonly<Record<BulkAction, readonly [doing: string, done: string]>> = {
  replay: ["Replaying", "replayed"],
  discard: ["Discarding", "discarded"],
  archive: ["Archiving", "archived"],
};
export const doneWord = (action: BulkAction): string => verbs[action][1];

/** Done batch by batch. The other operations are done at once. */
interface BulkOperation extends Operation {
  readonly action: BulkAction;
}
const isBulk = (operation: Operation): operation is BulkOperation => operation.action in verbs;

export async function startOperation(
  queue: Queue,
  action: BulkAction,
  filter: Parameters<typeof api.startOperation>[2],
  perSecond: number | undefined,
): Promise<void> {
  const operation = await api.startOperation(queue, action, filter);
  await runOperation(queue, { ...operation, action }, { perSecond });
}

interface RunOptions {
  readonly perSecond?: number | undefined;
  /** It was interrupted: who goes on with it is recorded. */
  readonly resume?: true;
}

/** Resolves when the operation is complete, stopped or failed. */
async function runOperation(queue: Queue, operation: BulkOperation, options: RunOptions = {}): Promise<void> {
  if (running.has(operation.id)) return;
  const stop = new AbortController();
  const entry: Running = { queue, operation, stop, progress: progressOf(operation, stop) };
  running.set(operation.id, entry);
  entry.progress.show(operation);
  region.append(entry.progress.row);
  region.hidden = false;
  try {
    await finish(entry, options);
    const { action, done } = entry.operation;
    announce(`${count(done, "message")} ${doneWord(action)}.`);
  } catch (error) {
    const { done, matched } = entry.operation;
    const why = isAbort(error) || entry.stop.signal.aborted ? "Stopped" : reasonOf(error);
    announce(
      `${why} after ${number(done)} of ${count(matched, "message")}. The rest can be resumed.`,
      "failed",
    );
  } finally {
    running.delete(operation.id);
    entry.progress.row.remove();
    region.hidden = running.size === 0;
  }
}

/** Batches of a quarter of a second's worth, and a wait after each. */
async function finish(entry: Running, { perSecond, resume }: RunOptions): Promise<void> {
  const { signal } = entry.stop;
  const batchSize = perSecond === undefined ? maxBatchSize : Math.min(maxBatchSize, Math.ceil(perSecond / 4));
  const waitMs = perSecond === undefined ? 0 : (batchSize / perSecond) * 1_000;
  for (let first = resume; ; first = undefined) {
    const batch = { batchSize, ...(first && { resume: first }) };
    entry.operation = { ...entry.operation, ...(await nextBatch(entry, batch)) } as BulkOperation;
    entry.progress.show(entry.operation);
    if (entry.operation.endedAt !== null) return;
    await pause(waitMs, signal);
    signal.throwIfAborted();
  }
}

/** Waits when the server has had enough requests for this minute. */
async function nextBatch(
  { queue, operation, stop: { signal } }: Running,
  batch: Parameters<typeof api.continueOperation>[2],
): Promise<Operation> {
  for (;;) {
    try {
      return await api.continueOperation(queue, operation.id, batch, { signal });
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 429)) throw error;
      await pause(Math.max(error.waitMs, 1_000), signal);
      signal.throwIfAborted();
    }
  }
}

/** Its elements stay the same while it runs, so that a click or the focus is not lost. */
function progressOf({ id, action }: BulkOperation, stop: AbortController) {
  const text = element("span", { id: `progress-${id}` });
  const bar = element("progress", { "aria-labelledby": text.id });
  const row = element(
    "div",
    { class: "progress" },
    text,
    bar,
    element("button", { type: "button", on: { click: () => stop.abort() } }, "Stop"),
  );
  return {
    row,
    show({ done, matched }: Operation) {
      text.textContent = `${verbs[action][0]} dead messages: ${number(done)} of ${number(matched)}`;
      bar.max = Math.max(matched, done, 1);
      bar.value = done;
    },
  };
}

const names: Readonly<Record<Operation["action"], string>> = {
  ...actionNames,
  edit: "Edit and replay",
  pause: "Pause",
  resume: "End of pause",
  limit: "Limit",
};

export const operationName = ({ action, filter }: Operation): string =>
  action === "limit" && filter.perSecond === null ? "End of limit" : names[action];

/** What operators have done, and who resumed it. Open when something is unfinished. */
export function operationsSection(
  context: ViewContext,
  operations: readonly Operation[],
): HTMLElement | null {
  if (operations.length === 0) return null;
  const unfinished = operations.filter(({ endedAt }) => endedAt === null).length;
  return element(
    "details",
    { class: "card", id: "operations", open: unfinished > 0 },
    element(
      "summary",
      {},
      element(
        "h2",
        { class: "summary-title" },
        unfinished === 0 ? "Operations" : `Operations: ${number(unfinished)} unfinished`,
      ),
    ),
    table(
      "Operations",
      [
        { name: "What", cell: operationName },
        { name: "By", cell: ({ by }) => by },
        { name: "Began", cell: ({ at }) => when(at) },
        { name: "Resumed", cell: resumed },
        { name: "Which", class: "wide", cell: ({ filter }) => conditionTexts(filter).join(", ") || "all" },
        {
          name: "Done",
          class: "number",
          cell: ({ done, matched }) => (matched === 0 ? "–" : `${number(done)} of ${number(matched)}`),
        },
        { name: "Ended", cell: (operation) => endOf(context, operation) },
      ],
      operations,
      "",
    ),
  );
}

const resumed = ({ resumedBy, resumedAt }: Operation): Child =>
  resumedBy === null ? "–" : [`by ${resumedBy} `, when(resumedAt)];

function endOf(context: ViewContext, operation: Operation): Node | string {
  const { id, endedAt } = operation;
  if (endedAt !== null) return when(endedAt);
  if (running.has(id) || !isBulk(operation)) return "running";
  const resume = async () => {
    await runOperation(context.route.queue, operation, { resume: true });
    if (!context.signal.aborted) context.reload();
  };
  return button("Resume", resume, {
    kind: "primary",
    "aria-label": `Resume the ${operation.action} of ${operation.by}`,
  });
}
