import { setTimeout as sleep } from "node:timers/promises";
import { createDispatcher, type HandlerContext, type InboxMessage, timeBudget } from "../../src/index.js";
import type { OpenInbox } from "../databases/bench-database.js";
import { spread } from "../measure.js";
import type { ResultRow } from "../report.js";
import type { Scenario } from "./scenario.js";

/** Functions that run side by side, each warm: it keeps its dispatcher from one budget to the next. */
const functions = 20;
const concurrency = 10;
const shortestMs = 5;
const longestMs = 500;

interface Run {
  readonly budgetMs: number;
  /** What remained when it returned; 0 is too late. */
  readonly spareMs: number;
  /** Of handlers that finished before their signal, summed. */
  readonly handledMs: number;
  readonly cutOff: number;
}

/**
 * How much of a function's time goes into finished work, and whether it ever ends too late. The handlers ignore their
 * signal, which is the worst that a handler can do short of holding the thread.
 */
export const deadline: Scenario = async ({ database, sizes }) => {
  const rows: ResultRow[] = [];
  for (const mix of [oneTopic, manyTopics]) {
    const opened = await database.openInbox(4);
    const budgets = Array.from({ length: sizes.budgets }, () => between(1_000, sizes.longestBudgetMs));
    await fill(opened, mix, budgets);
    const runs: Run[] = [];
    const left = [...budgets];
    await Promise.all(
      Array.from({ length: functions }, async () => {
        const run = functionOf(opened, mix);
        for (let next = left.pop(); next !== undefined; next = left.pop()) runs.push(await run(next));
      }),
    );
    await opened.close();
    rows.push(...rowsOf(mix.title, database.title, runs));
  }
  return rows;
};

interface Mix {
  readonly title: string;
  readonly topics: readonly string[];
  readonly meanMs: number;
  /** How long a handler of this topic takes, this time. */
  durationMs(topic: string): number;
}

const between = (low: number, high: number): number => low + Math.random() * (high - low);

/** The topic says nothing about the duration. */
const oneTopic: Mix = {
  title: `one topic of ${shortestMs}–${longestMs} ms`,
  topics: ["any"],
  meanMs: (shortestMs + longestMs) / 2,
  durationMs: () => between(shortestMs, longestMs),
};

/** Each takes what it takes, give or take a quarter. */
const topicMs: Readonly<Record<string, number>> = { tiny: 7, small: 25, medium: 80, large: 200, huge: 400 };
const manyTopics: Mix = {
  title: `five topics of ${shortestMs}–${longestMs} ms`,
  topics: Object.keys(topicMs),
  meanMs: 142,
  durationMs: (topic) => topicMs[topic]! * between(0.75, 1.25),
};

/** More than all budgets together can handle. */
async function fill({ inbox }: OpenInbox, mix: Mix, budgets: readonly number[]): Promise<void> {
  const total = Math.ceil((sum(budgets) * concurrency * 1.3) / mix.meanMs) + functions * 50;
  for (let from = 0; from < total; from += 200) {
    const messages = Array.from({ length: 200 }, (_, index) => ({
      source: "bench",
      messageId: String(from + index),
      topic: mix.topics[Math.floor(between(0, mix.topics.length))]!,
      payload: "{}",
    }));
    await inbox.enqueue(messages);
  }
}

function functionOf({ inbox }: OpenInbox, mix: Mix): (budgetMs: number) => Promise<Run> {
  let handledMs = 0;
  const handle = async ({ topic }: InboxMessage, { signal }: HandlerContext): Promise<void> => {
    const startedAt = performance.now();
    await sleep(mix.durationMs(topic));
    if (!signal.aborted) handledMs += performance.now() - startedAt;
  };
  const dispatcher = createDispatcher<InboxMessage>({
    concurrency,
    handlers: Object.fromEntries(mix.topics.map((topic) => [topic, handle])),
  });
  return async (budgetMs) => {
    handledMs = 0;
    const budget = timeBudget(budgetMs);
    const { abandoned, stopped } = await dispatcher.run(inbox, budget);
    const spareMs = budget.remainingMs();
    if (stopped !== "time")
      throw new Error(`deadline: a run ended because of "${stopped}", not of the time.`);
    return { budgetMs, spareMs, handledMs, cutOff: abandoned };
  };
}

/** What a dispatcher may at most fill with handlers: its least reserve is 150 ms; what it keeps beyond counts as lost. */
const usableMs = ({ budgetMs }: Run): number => (budgetMs - 150) * concurrency;

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

function rowsOf(mix: string, database: string, runs: readonly Run[]): readonly ResultRow[] {
  const handled = sum(runs.map((run) => run.handledMs)) / 1000;
  const usable = sum(runs.map(usableMs)) / 1000;
  const late = runs.filter((run) => run.spareMs <= 0).length;
  const closest = Math.min(...runs.map((run) => run.spareMs));
  const cutOff = sum(runs.map((run) => run.cutOff));
  const common = { database, spread: 0 };
  return [
    {
      ...common,
      name: `time used, ${mix}`,
      unit: "handler s",
      rate: handled,
      referenceRate: usable,
      ratio: handled / usable,
      ratioTo: "the usable time of all budgets",
      spread: spread(runs.map((run) => run.handledMs / usableMs(run))),
      target: { atLeast: 0.9 },
    },
    {
      ...common,
      name: `too late, ${mix}`,
      unit: "runs",
      rate: late,
      referenceRate: runs.length,
      ratio: late / runs.length,
      ratioTo: `all runs; the closest ended ${closest.toFixed(0)} ms before its end`,
      target: { atMost: 0 },
    },
    {
      ...common,
      name: `cut off, ${mix}`,
      unit: "messages",
      rate: cutOff,
      referenceRate: runs.length,
      ratio: cutOff / runs.length,
      ratioTo: "runs",
    },
  ];
}
