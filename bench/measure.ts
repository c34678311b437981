/** Does one round's work and returns its rate: operations per second. */
export type Contender = (round: number) => Promise<number>;

export interface Comparison {
  /** Medians over the rounds. */
  readonly rate: number;
  readonly referenceRate: number;
  /** The median of each round's subject ÷ reference, not the quotient of the medians. */
  readonly ratio: number;
  /** (p75 − p25) ÷ median of the rounds' ratios: 0.1 means that half of the rounds lay within about ±5 %. */
  readonly spread: number;
}

export interface Rounds {
  readonly rounds: number;
  /** No further round is begun after this time, once there are five: on a busy machine a quick run stays quick. */
  readonly maxMs: number;
  /** Rounds before those that count; one by default. */
  readonly warmUps?: number;
}

const fewestRounds = 5;

/**
 * A B, B A, A B, …: the two alternate, a fraction of a second each, so that whatever else the
 * machine does (other processes, a checkpoint, a change of clock speed) meets both, and each round's
 * ratio is made of neighbours in time. Rounds are numbered from 0; the first ones warm up and are not counted.
 */
export async function compare(
  subject: Contender,
  reference: Contender,
  { rounds, maxMs, warmUps = 1 }: Rounds,
): Promise<Comparison> {
  const end = performance.now() + maxMs;
  const subjectRates: number[] = [];
  const referenceRates: number[] = [];
  for (let round = 0; round < warmUps + rounds; round++) {
    if (subjectRates.length >= fewestRounds && performance.now() > end) break;
    const subjectFirst = round % 2 === 0;
    const first = await (subjectFirst ? subject : reference)(round);
    const second = await (subjectFirst ? reference : subject)(round);
    if (round < warmUps) continue;
    subjectRates.push(subjectFirst ? first : second);
    referenceRates.push(subjectFirst ? second : first);
  }
  const ratios = subjectRates.map((rate, index) => rate / referenceRates[index]!);
  return {
    rate: median(subjectRates),
    referenceRate: median(referenceRates),
    ratio: median(ratios),
    spread: spread(ratios),
  };
}

/** The rate at which `work` does `operations` of something. */
export async function ratePerSecond(operations: number, work: () => Promise<void>): Promise<number> {
  return (operations / (await elapsedMs(work))) * 1000;
}

export async function elapsedMs(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** `count` calls, `concurrency` of them at any time. */
export async function inParallel(
  count: number,
  concurrency: number,
  work: (index: number) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
}

export const median = (values: readonly number[]): number => quantile(values, 0.5);

export const spread = (values: readonly number[]): number =>
  (quantile(values, 0.75) - quantile(values, 0.25)) / quantile(values, 0.5);

export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const position = (sorted.length - 1) * q;
  const below = sorted[Math.floor(position)]!;
  const above = sorted[Math.ceil(position)]!;
  return below + (above - below) * (position - Math.floor(position));
}
