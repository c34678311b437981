import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { inTime } from "../in-time.js";
import { inParallel, ratePerSecond } from "../measure.js";
import { payloadBytes } from "../messages.js";
import { answerParent } from "../peers/answer-parent.js";
import { openBareStore } from "./bare-store.js";
import { openSender } from "./service.js";
import { longestRoundMs, monotonicMs, type SenderAnswer, type SideName } from "./two-processes.js";

// The sending half of one side, in a process of its own. For every number that it is sent, it sends so many messages and
// returns a SenderAnswer.
interface Sender {
  /** Resolves when the message is committed. */
  send(): Promise<void>;
  /** Resolves when all messages are acknowledged and settled. */
  delivered(count: number): Promise<void>;
  /** Of the messages that `delivered` waits for. */
  acknowledged(): number;
  close(): Promise<void>;
}

const [side, url, schema, address, atOnce] = process.argv.slice(2) as [
  SideName,
  string,
  string,
  string,
  string,
];
const text = "x".repeat(payloadBytes);

async function service(): Promise<Sender> {
  let ended = 0;
  let enough = { count: Number.POSITIVE_INFINITY, reached() {} };
  const { service, db } = await openSender(url, schema, address, () => {
    if (++ended === enough.count) enough.reached();
  });
  service.start();

  const allEnded = async (count: number): Promise<void> => {
    if (ended < count)
      await new Promise<void>((reached) => {
        enough = { count, reached };
      });
  };
  const allSettled = async (): Promise<void> => {
    for (;;) {
      const { counts } = await service.outboxStats();
      if (counts.Failed > 0) throw new Error(`${counts.Failed} messages have failed.`);
      if (counts.Pending + counts.Sending === 0) return;
      await sleep(1);
    }
  };
  return {
    send: async () => void (await service.send.OrderApproved("receiver", { text })),
    async delivered(count) {
      await allEnded(count);
      await allSettled();
      ended -= count;
    },
    acknowledged: () => ended,
    async close() {
      await service.close();
      await db.close();
    },
  };
}

async function bare(): Promise<Sender> {
  const store = await openBareStore(url, schema);
  let ended = 0;
  return {
    async send() {
      const id = randomUUID();
      await store.insert(id, text);
      const response = await fetch(address, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ id, text }),
      });
      const { acknowledged } = (await response.json()) as { acknowledged: boolean };
      if (!acknowledged) throw new Error("not acknowledged");
      ended++;
    },
    async delivered(count) {
      ended -= count;
    },
    acknowledged: () => ended,
    close: store.close,
  };
}

const sender = await { oncebox: service, bare }[side]();

/** Calls come in by the event loop, as requests do. SQLite would otherwise take all messages before the first is sent. */
const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function sendAtOnce(count: number): Promise<SenderAnswer> {
  const rate = await ratePerSecond(count, async () => {
    await inParallel(count, Number(atOnce), async () => {
      await nextTurn();
      await sender.send();
    });
    await sender.delivered(count);
  });
  return { rate, committedAt: [], tookMs: [] };
}

/** One after the other: the next is sent when all of the last one is over. */
async function sendSingly(count: number): Promise<SenderAnswer> {
  const committedAt: number[] = [];
  const tookMs: number[] = [];
  const rate = await ratePerSecond(count, async () => {
    while (committedAt.length < count) {
      const calledAt = monotonicMs();
      await sender.send();
      const now = monotonicMs();
      committedAt.push(now);
      tookMs.push(now - calledAt);
      await sender.delivered(1);
    }
  });
  return { rate, committedAt, tookMs };
}

const send = Number(atOnce) === 1 ? sendSingly : sendAtOnce;

answerParent(
  (count) => {
    const what = () =>
      `${side}: a round of ${count} messages, ${sender.acknowledged()} of them acknowledged,`;
    return inTime(longestRoundMs, what, send(count));
  },
  () => sender.close(),
);
