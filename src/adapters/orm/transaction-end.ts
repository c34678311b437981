/** The statements of ours in the transactions of one connection of a library's, and the ends of these transactions. */
export interface TransactionEnd {
  /** Runs a statement; while a transaction ends, only after that. */
  before<T>(statement: () => Promise<T>): Promise<T>;
  /** Ends a transaction when the statements before it are done. */
  after<T>(end: () => Promise<T>): Promise<T>;
  /** How many transactions have ended. */
  count(): number;
}

const ends = new WeakMap<object, TransactionEnd>();

/**
 * Some libraries commit or roll back while a statement runs, or start the next one after that: it would be committed on its
 * own. `bind` is called once for each `owner`, the object by which the library ends its transactions, and makes it call
 * `after`. See docs/decisions/0024.
 */
export function transactionEnd(owner: object, bind: (end: TransactionEnd) => void): TransactionEnd {
  const known = ends.get(owner);
  if (known !== undefined) return known;
  const made = newEnd();
  ends.set(owner, made);
  bind(made);
  return made;
}

function newEnd(): TransactionEnd {
  const running = new Set<Promise<unknown>>();
  let ending: Promise<unknown> | undefined;
  let count = 0;
  return {
    async before(statement) {
      while (ending !== undefined) await ending;
      const started = statement();
      running.add(started);
      try {
        return await started;
      } finally {
        running.delete(started);
      }
    },
    async after(end) {
      const idle = Promise.allSettled(running);
      const ended = idle.then(end);
      const settled = ended.then(
        () => {},
        () => {},
      );
      ending = settled;
      try {
        return await ended;
      } finally {
        count++;
        if (ending === settled) ending = undefined;
      }
    },
    count: () => count,
  };
}

/** A text that ends a transaction, and not only a savepoint. */
export const endsTransaction = (text: string): boolean => /^\s*(commit|rollback)\s*;?\s*$/i.test(text);
