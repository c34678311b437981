/** The failed attempts of a message that are kept: the last ones. */
export const keptAttempts = 50;

/** Messages of an ended control that one call returns. */
export const returnedBatch = 500;

export const defaults = {
  leaseMs: 30_000,
  batchSize: 50,
  reapBatchSize: 200,
  purgeBatchSize: 500,
  retentionMs: 30 * 24 * 60 * 60 * 1000,
  listLimit: 100,
  operationBatchSize: 200,
} as const;
