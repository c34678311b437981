declare const transactionOf: unique symbol;

/** What `work` resolves to. A function that begins transactions returns it: so its type says which transaction handlers get. */
export interface RanInTransaction<Tx> {
  readonly [transactionOf]: Tx;
}

export interface BeginOptions {
  /** Fires when the handler is given up: end the transaction then, if your library can while the handler still uses it. */
  readonly signal: AbortSignal;
  /** The id of the store that the message is from. */
  readonly store: string;
}

/**
 * Runs `work` in a transaction of your own library: commits when `work` resolves, rolls back when it rejects, and returns
 * what it resolves to. `work` takes the transaction twice: adapted for the acknowledgement, and as handlers get it.
 *
 * @example
 * (work) => knex.transaction((trx) => work(fromKnex(trx), trx))
 */
export type BeginHandlerTransaction<StoreTx, Tx> = (
  work: <Own>(tx: StoreTx, own: Own) => Promise<RanInTransaction<Own>>,
  options: BeginOptions,
) => Promise<RanInTransaction<Tx>>;
