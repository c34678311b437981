/** Runs `work` on each item in order, at most `atOnce` at a time. Rejects with the first error; work that has started goes on. */
export async function severalAtOnce<Item>(
  items: Iterable<Item>,
  atOnce: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const all = [...items];
  const left = all.values(); // all workers take from this one iterator
  const worker = async (): Promise<void> => {
    for (const item of left) await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, all.length) }, worker));
}
