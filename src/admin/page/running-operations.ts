import { announce, isAbort, reasonOf } from "./announce.js";
import { ApiError, api } from "./api.js";
import { element } from "./dom.js";
import { count, number } from "./format.js";
import { pause } from "./repeat.js";
import type { Queue } from "./routes.js";
import type { BulkAction, Operation } from "./wire.js";

/** An operation is done batch by batch by this page. When the tab is closed, the rest can be resumed. */
interface Running {
  readonly queue: Queue;
  readonly stop: AbortController;
  readonly progress: ReturnType<typeof progressOf>;
  operation: BulkOperation;
}

const mostAtOnce = 200;
const running = new Map<string, Running>();
const region = element("section", { class: "running", "aria-label": "Running operations", hidden: true });

export const runningRegion = (): HTMLElement => region;
export const isRunning = (id: string): boolean => running.has(id);

const verbs: Readonly<Record<BulkAction, readonly [doing: string, done: string]>> = {
  replay: ["Replaying", "replayed"],
  discard: ["Discarding", "discarded"],
  archive: ["Archiving", "archived"],
};
export const doneWord = (action: BulkAction): string => verbs[action][1];

/** What is done batch by batch. The other operations are done at once. */
export interface BulkOperation extends Operation {
  readonly action: BulkAction;
}
export const isBulk = (operation: Operation): operation is BulkOperation => operation.action in verbs;

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
export async function runOperation(
  queue: Queue,
  operation: BulkOperation,
  options: RunOptions = {},
): Promise<void> {
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
  const batchSize = perSecond === undefined ? mostAtOnce : Math.min(mostAtOnce, Math.ceil(perSecond / 4));
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
