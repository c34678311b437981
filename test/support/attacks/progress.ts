const everyMs = 10_000;
const turn = 1_000;

/** Call it before each attack. In a long run it says every ten seconds how far it is, and lets other work of the process run. */
export function reportProgress(name: string, count: number): (done: number) => Promise<void> | undefined {
  let saidAt = performance.now();
  return (done) => {
    if (done % turn !== 0) return undefined;
    const now = performance.now();
    if (now - saidAt < everyMs) return undefined;
    saidAt = now;
    console.log(`${name}: ${done} of ${count}`);
    return new Promise((resolve) => setImmediate(resolve));
  };
}
