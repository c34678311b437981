import type { RecordOf, SoakMessage, SoakProcess, SoakRun } from "./records.js";

/** A claim or a renewal: from its confirmation until its lease time after it was sent, by the process's own clock. */
export interface Grant {
  readonly sentAt: number;
  readonly from: number;
  readonly until: number;
}

/** What one claim of one message led to. */
export interface LeaseFacts {
  readonly process: SoakProcess;
  readonly message: SoakMessage;
  readonly owner: string;
  readonly claimedAt: number;
  readonly grants: Grant[];
  /** Renewals that found the lease lost. */
  readonly lostRenewals: RecordOf<"renew">[];
  readonly settlements: RecordOf<"settle">[];
  readonly failedCalls: RecordOf<"failed">[];
}

export interface Handling {
  readonly lease: LeaseFacts;
  readonly start: RecordOf<"start">;
  readonly end: RecordOf<"end"> | undefined;
}

export interface Facts {
  readonly run: SoakRun;
  readonly leases: readonly LeaseFacts[];
  readonly leasesOf: (message: SoakMessage) => readonly LeaseFacts[];
  /** In the order in which they started. */
  readonly handlings: readonly Handling[];
  readonly handlingsOf: (message: SoakMessage) => readonly Handling[];
  /** Starts without a claim, or a second one under one claim. */
  readonly strayStarts: readonly RecordOf<"start">[];
}

/** Puts the records of all processes together by message and lease. */
export function factsOf(run: SoakRun): Facts {
  const messages = new Map(run.messages.map((message) => [message.seq, message]));
  const leases = new Map<string, LeaseFacts>();
  const started = new Map<string, RecordOf<"start">>();
  const ended = new Map<string, RecordOf<"end">>();
  const strayStarts: RecordOf<"start">[] = [];
  const nameOf = (owner: string, seq: number) => `${owner} ${seq}`;
  const eachLease = (owner: string, seqs: readonly number[], use: (lease: LeaseFacts) => void): void => {
    for (const seq of seqs) {
      const lease = leases.get(nameOf(owner, seq));
      if (lease !== undefined) use(lease);
    }
  };

  for (const process of run.processes) {
    for (const record of process.records) {
      const { at } = record;
      if (record.kind === "gap") continue;
      const { owner } = record;
      if (record.kind === "claim") {
        for (const seq of record.seqs) {
          const grants = [{ sentAt: record.sentAt, from: at, until: record.sentAt + run.leaseMs }];
          const lists = { grants, lostRenewals: [], settlements: [], failedCalls: [] };
          const message = messages.get(seq)!;
          leases.set(nameOf(owner, seq), { process, message, owner, claimedAt: at, ...lists });
        }
      } else if (record.kind === "renew") {
        const grant = { sentAt: record.sentAt, from: at, until: record.sentAt + run.leaseMs };
        eachLease(owner, record.changed, (lease) => lease.grants.push(grant));
        eachLease(owner, record.lost, (lease) => lease.lostRenewals.push(record));
      } else if (record.kind === "settle") {
        eachLease(owner, [...record.changed, ...record.lost], (lease) => lease.settlements.push(record));
      } else if (record.kind === "failed") {
        eachLease(owner, record.seqs, (lease) => lease.failedCalls.push(record));
      } else {
        const name = nameOf(owner, record.seq);
        if (record.kind === "end") ended.set(name, record);
        else if (started.has(name) || !leases.has(name)) strayStarts.push(record);
        else started.set(name, record);
      }
    }
  }

  const handlings = [...started]
    .map(([name, start]): Handling => ({ lease: leases.get(name)!, start, end: ended.get(name) }))
    .sort((a, b) => a.start.at - b.start.at);
  const all = [...leases.values()];
  const leasesBySeq = groupBy(all, ({ message }) => message.seq);
  const handlingsBySeq = groupBy(handlings, ({ start }) => start.seq);
  return {
    run,
    leases: all,
    leasesOf: ({ seq }) => leasesBySeq.get(seq) ?? [],
    handlings,
    handlingsOf: ({ seq }) => handlingsBySeq.get(seq) ?? [],
    strayStarts,
  };
}

export function groupBy<Item, Name>(items: Iterable<Item>, nameOf: (item: Item) => Name): Map<Name, Item[]> {
  const groups = new Map<Name, Item[]>();
  for (const item of items) {
    const name = nameOf(item);
    const group = groups.get(name);
    if (group === undefined) groups.set(name, [item]);
    else group.push(item);
  }
  return groups;
}
