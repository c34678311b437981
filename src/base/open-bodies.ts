/** The bodies that are read at the same time and that nothing proves yet. */
export interface OpenBodies {
  /** `refuse` is called when this body has to make room for others. */
  enter(refuse: () => void): OpenBody;
}

export interface OpenBody {
  /** The body now takes so much memory. */
  takes(bytes: number): void;
  leave(): void;
}

export interface OpenBodiesLimits {
  /** The memory of all of them. */
  readonly maxBytes: number;
  readonly maxCount?: number;
}

interface Entry {
  bytes: number;
  readonly refuse: () => void;
}

const defaultMaxCount = 1_000;

/**
 * Bounds the memory that senders can take who prove nothing. When there is too much, the largest body is refused; when
 * there are too many, the oldest: a body that stalls, not the small one that has just come.
 */
export function openBodies({ maxBytes, maxCount = defaultMaxCount }: OpenBodiesLimits): OpenBodies {
  const open = new Set<Entry>(); // in the order of their beginning
  let total = 0;
  const leave = (entry: Entry): void => {
    if (open.delete(entry)) total -= entry.bytes;
  };
  const refuse = (entry: Entry): void => {
    leave(entry);
    entry.refuse();
  };
  const largest = (): Entry => [...open].reduce((most, one) => (one.bytes > most.bytes ? one : most));

  return {
    enter(refuseThis) {
      const entry: Entry = { bytes: 0, refuse: refuseThis };
      open.add(entry);
      if (open.size > maxCount) refuse(open.values().next().value!);
      return {
        takes(bytes) {
          if (!open.has(entry)) return;
          total += bytes - entry.bytes;
          entry.bytes = bytes;
          while (total > maxBytes) refuse(largest());
        },
        leave: () => leave(entry),
      };
    },
  };
}
