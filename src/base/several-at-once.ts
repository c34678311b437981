/** Work on each item, so many at once, begun in their order. What one of them throws is thrown at once; those that run go on. */
export async function severalAtOnce<Item>(
  items: Iterable<Item>,
  atOnce: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const all = [...items];
  const left = all.values(); // every worker takes from this one
  const worker = async (): Promise<void> => {
    for (const item of left) await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, all.length) }, worker));
}
