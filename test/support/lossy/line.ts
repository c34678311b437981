import type { Socket } from "node:net";
import type { LoopbackAddress } from "../loopback.js";
import { type Decision, type Fault, faults } from "./decide-fault.js";

/** One request on its way and the means to do it well or badly. What cannot be delivered rejects. */
export interface Exchange<Answer> {
  /** Delivers the whole request; may be called again. */
  forward(): Promise<Answer>;
  /** Delivers the first part of the request and cuts the connection to the receiver. */
  forwardPart(fraction: number): Promise<void>;
  answer(answer: Answer): void;
  /** Returns the first part of the answer and cuts the connection to the sender. */
  answerPart(answer: Answer, fraction: number): Promise<void>;
  /** The sender sees a cut connection. Harmless after an answer. */
  cut(): void;
}

/** Where the requests go now. */
export interface Receiver {
  readonly address: LoopbackAddress;
  dial(): Socket;
}

/** `away`: the receiver could not be reached or ended before it answered. */
export type Outcome = Fault | "none" | "away";

export interface Line {
  /** How many requests have arrived. */
  readonly arrived: number;
  /** What really happened: a request that nothing overtook was delayed, not reordered. */
  readonly counts: Readonly<Record<Outcome, number>>;
  run<Answer>(exchange: Exchange<Answer>): void;
  /** Resolves when no request is on its way, late duplicates included. */
  idle(): Promise<void>;
  /** Gives up what is held back. */
  close(): void;
}

const maxDelayMs = 300;
const maxOvertaking = 5;

interface Held {
  passed(): void;
  release(): void;
}

/**
 * Does to each exchange what is decided for its number, for every protocol the same. A request that is held back until
 * others pass goes on after `maxHoldMs`, because its sender waits.
 */
export function createLine(
  decide: (index: number) => Decision,
  maxHoldMs: number,
  onOutcome?: (outcome: Outcome) => void,
): Line {
  const counts = Object.fromEntries([...faults, "none", "away"].map((name) => [name, 0])) as Record<
    Outcome,
    number
  >;
  const held = new Set<Held>();
  const running = new Set<Promise<void>>();
  let arrived = 0;
  let isClosed = false;
  const count = (outcome: Outcome): void => {
    counts[outcome]++;
    onOutcome?.(outcome);
  };

  /** Waits until so many others have passed, or the time is over. Returns how many have. */
  async function hold(others: number, ms: number): Promise<number> {
    let passed = 0;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => one.release(), ms);
      const one: Held = {
        passed: () => {
          if (++passed >= others) one.release();
        },
        release: () => {
          clearTimeout(timer);
          held.delete(one);
          resolve();
        },
      };
      held.add(one);
    });
    if (isClosed) throw new Error("The proxy was closed while it held a request back.");
    return passed;
  }
  const holdForOthers = (amount: number) => hold(1 + Math.floor(amount * maxOvertaking), maxHoldMs);

  async function perform<Answer>(exchange: Exchange<Answer>, { fault, amount }: Decision): Promise<Outcome> {
    const forward = async () => {
      const answer = await exchange.forward();
      for (const one of held) one.passed();
      return answer;
    };
    switch (fault) {
      case "none":
        exchange.answer(await forward());
        return fault;
      case "drop-request":
        exchange.cut();
        return fault;
      case "drop-answer":
        await forward();
        exchange.cut();
        return fault;
      case "cut-request":
        await exchange.forwardPart(amount);
        exchange.cut();
        return fault;
      case "cut-answer":
        await exchange.answerPart(await forward(), amount);
        return fault;
      case "delay":
        await hold(Number.POSITIVE_INFINITY, amount * maxDelayMs);
        exchange.answer(await forward());
        return fault;
      case "duplicate": {
        const both = [forward(), forward()];
        const ended = Promise.allSettled(both);
        exchange.answer(await Promise.any(both));
        const isTwice = (await ended).every(({ status }) => status === "fulfilled");
        return isTwice ? fault : "none";
      }
      case "late-duplicate":
        exchange.answer(await forward());
        return await holdForOthers(amount)
          .then(forward)
          .then(
            () => fault,
            () => "none",
          );
      case "reorder": {
        const overtaking = await holdForOthers(amount);
        exchange.answer(await forward());
        return overtaking > 0 ? fault : "delay";
      }
    }
  }

  return {
    get arrived() {
      return arrived;
    },
    counts,
    run(exchange) {
      const done = perform(exchange, decide(arrived++)).then(count, () => {
        count("away");
        exchange.cut();
      });
      running.add(done);
      done.finally(() => running.delete(done));
    },
    async idle() {
      while (running.size > 0) await Promise.all(running);
    },
    close() {
      isClosed = true;
      for (const one of held) one.release();
    },
  };
}

/** The first part of the bytes: at least one byte, never all. */
export function partOf(bytes: Buffer, fraction: number): Buffer {
  return bytes.subarray(0, 1 + Math.floor((bytes.length - 1) * fraction));
}
