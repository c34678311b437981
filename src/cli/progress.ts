import type { Terminal } from "./command.js";

/** Prints the elapsed time every two seconds on an interactive terminal, and nothing elsewhere. */
export async function withProgress<T>(terminal: Terminal, what: string, work: () => Promise<T>): Promise<T> {
  if (!terminal.isInteractive) return work();
  const start = performance.now();
  const timer = setInterval(() => {
    terminal.err(`${what} … ${Math.round((performance.now() - start) / 1000)} s`);
  }, 2_000);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}

const barWidth = 30;

export interface ProgressBar {
  /** How much is done now. */
  show(done: number): void;
  /** Removes the bar, so that the result stands alone. */
  end(): void;
}

/** A bar that fills on an interactive terminal, and nothing elsewhere. */
export function progressBar({ redraw }: Terminal, what: string, total: number): ProgressBar {
  const bar = (done: number): string => {
    const share = total === 0 ? 1 : Math.min(1, done / total); // more may have come since they were counted
    const full = Math.floor(share * barWidth);
    return `${what} [${"#".repeat(full)}${".".repeat(barWidth - full)}] ${Math.floor(share * 100)} % (${done} of ${total})`;
  };
  return { show: (done) => redraw?.(bar(done)), end: () => redraw?.("") };
}
