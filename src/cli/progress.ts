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
