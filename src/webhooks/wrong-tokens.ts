import { sleep } from "../base/async.js";

/** Of each source. A flood of wrong tokens holds no more requests than that. */
const maxWaiting = 50;

/**
 * Answers wrong tokens late, so that a guess takes time. The right token never waits: nobody is locked out. Those beyond
 * `maxWaiting` are answered at once; what keeps a token from being guessed is its length.
 */
export class WrongTokens {
  readonly #waitMs: number;
  readonly #waiting = new Map<string, number>();

  constructor(waitMs: number) {
    this.#waitMs = waitMs;
  }

  async wait(source: string): Promise<void> {
    const waiting = this.#waiting.get(source) ?? 0;
    if (this.#waitMs === 0 || waiting >= maxWaiting) return;
    this.#waiting.set(source, waiting + 1);
    await sleep(this.#waitMs);
    this.#waiting.set(source, this.#waiting.get(source)! - 1);
  }
}
