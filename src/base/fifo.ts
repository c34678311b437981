/** A first-in, first-out list. `take` does not move the other items, of which there may be thousands. */
export interface Fifo<Item> {
  size(): number;
  add(item: Item): void;
  first(): Item | undefined;
  take(): Item | undefined;
}

export function fifo<Item>(items: readonly Item[] = []): Fifo<Item> {
  let list = [...items];
  let head = 0;
  return {
    size: () => list.length - head,
    add: (item) => void list.push(item),
    first: () => list[head],
    take() {
      const item = list[head];
      if (item === undefined) return undefined;
      if (++head > 1_000 && head * 2 > list.length) {
        list = list.slice(head);
        head = 0;
      }
      return item;
    },
  };
}
