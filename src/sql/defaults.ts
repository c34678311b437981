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
  operationRetentionMs: 90 * 24 * 60 * 60 * 1000,
} as const;

/** Messages that one recorded call names: its record has the keys of all that it changed. */
export const mostKeys = 1_000;

/** What `activity` reads at most: beside the unfinished messages, `most` rows each of messages, done messages and dead messages. */
export const activityLimits = {
  window: 20_000,
  most: 100_000,
  mostUnfinished: 1_000_000,
  buckets: 48,
  mostBuckets: 500,
  sinceMs: 31 * 24 * 60 * 60 * 1000,
} as const;

/** The sources of an inbox among which a message is looked for by its message id alone. */
export const mostSources = 1_000;
