/** First in, first out, without moving thousands at each step. */
export interface Fifo<Item> {
  size(): number;
  add(item: Item): void;
  first(): Item | undefined;
  take(): Item | undefined;
}

export function fifo<Item>(items: readonly Item[] = []): Fifo<Item> {
  let waiting = [...items];
  let head = 0;
  return {
    size: () => waiting.length - head,
    add: (item) => void waiting.push(item),
    first: () => waiting[head],
    take() {
      const item = waiting[head];
      if (item === undefined) return undefined;
      if (++head > 1_000 && head * 2 > waiting.length) {
        waiting = waiting.slice(head);
        head = 0;
      }
      return item;
    },
  };
}
