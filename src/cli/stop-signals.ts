/** npm passes a Ctrl-C on to a process that has had it from the terminal already. Those two are one. */
const samePressMs = 250;

/** Aborts at the first Ctrl-C, so that running work finishes. The second one ends the process at once. */
export function stopSignals(): AbortController {
  const stopping = new AbortController();
  let firstAt = 0;
  const numbers = { SIGINT: 2, SIGTERM: 15 } as const;
  for (const [signal, number] of Object.entries(numbers)) {
    process.on(signal, () => {
      if (!stopping.signal.aborted) {
        firstAt = performance.now();
        stopping.abort();
      } else if (performance.now() - firstAt > samePressMs) process.exit(128 + number);
    });
  }
  return stopping;
}
