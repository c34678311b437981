import { longestTimerMs } from "../base/longest-timer.js";
import { problemOf } from "../base/problem-of.js";
import { optionalCount, refuseUnknown, requireBatchSize, requireDuration } from "../queue/arguments.js";
import { retryPolicy } from "../queue/retry-policy.js";
import { requireIdentifier } from "../sql/names.js";
import { defaultRetry, mostRetries, policyOf, retryWindowMs } from "./retry-options.js";
import { type AnyServiceOptions, settingsOf } from "./service-options.js";

const durations = [
  "ttlMs",
  "pollMs",
  "idlePollMs",
  "leaseMs",
  "timeoutMs",
  "handlerTimeoutMs",
  "sentRetentionMs",
  "inboxRetentionMs",
  "cleanupMs",
  "toleranceMs",
] as const;

/** Those that a timer waits for. */
const timers = ["pollMs", "idlePollMs", "timeoutMs", "handlerTimeoutMs", "cleanupMs"] as const;

/** Problems of times, limits and retries. */
export function checkTimes(options: AnyServiceOptions): readonly string[] {
  const settings = settingsOf(options);
  const { retry } = settings;
  const problems = [
    ...durations.flatMap((name) => problemOf(() => requireDuration(settings[name], name))),
    ...(settings.failedRetentionMs === Number.POSITIVE_INFINITY
      ? []
      : problemOf(() => requireDuration(settings.failedRetentionMs, "failedRetentionMs"))),
    ...timers
      .filter((name) => settings[name] > longestTimerMs)
      .map((name) => `${name} must be at most ${longestTimerMs} ms, not ${settings[name]}`),
    ...problemOf(() => requireBatchSize(settings.batchSize)),
    ...(["concurrency", "maxBodyBytes", "maxResponseBytes"] as const).flatMap((name) =>
      problemOf(() => optionalCount(settings[name], name, 1)),
    ),
    ...problemOf(() => refuseUnknown(options.retry ?? {}, Object.keys(defaultRetry), "retry")),
    ...problemOf(() => retryPolicy(policyOf(retry))),
    ...problemOf(() => optionalCount(retry.maxRetries, "retry.maxRetries", 0)),
    ...(retry.maxRetries > mostRetries ? [`retry.maxRetries must be at most ${mostRetries}`] : []),
    ...problemOf(() => {
      requireIdentifier(settings.table, "table");
      requireIdentifier(`${settings.table}_outbox`, `"${settings.table}_outbox", the name of a table,`);
    }),
    ...(/^(\/[\w.~-]+)*$/.test(settings.prefix) ? [] : ['prefix must be a path, such as "/_rf"']),
  ];
  return problems.length > 0 ? problems : checkRetention(options);
}

/**
 * A message that arrives after its record was deleted would be handled twice. A sender sends until the last retry; while
 * a circuit breaker is open, it waits without using up retries, at most until the message expires.
 */
function checkRetention(options: AnyServiceOptions): readonly string[] {
  const { inboxRetentionMs, failedRetentionMs, ttlMs, toleranceMs, retry } = settingsOf(options);
  const windows = [
    ["the retry window", retryWindowMs(retry)] as const,
    ...Object.entries(options.sources ?? {}).flatMap(([id, source]) =>
      source?.retryWindowMs === undefined
        ? []
        : [[`the retry window of the source "${id}"`, source.retryWindowMs] as const],
    ),
  ];
  const tooShort = windows
    .filter(([, windowMs]) => !(inboxRetentionMs >= 2 * windowMs))
    .map(
      ([what, windowMs]) =>
        `inboxRetentionMs must be at least twice ${what}, which is ${windowMs} ms: at least ${2 * windowMs}, not ${inboxRetentionMs}`,
    );
  const failedTooShort =
    failedRetentionMs >= ttlMs
      ? []
      : [
          `failedRetentionMs must be at least ttlMs (${ttlMs}), not ${failedRetentionMs}: a Failed message would be deleted before it is told as Expired`,
        ];
  const belowTtl =
    inboxRetentionMs >= ttlMs
      ? []
      : [
          `inboxRetentionMs must be at least ttlMs (${ttlMs}), not ${inboxRetentionMs}: a message may be sent until it expires`,
        ];
  // One that is signed by a clock as fast as is allowed can be replayed until that clock's time and the tolerance are over.
  const belowTolerance =
    inboxRetentionMs >= 2 * toleranceMs
      ? []
      : [
          `inboxRetentionMs must be at least twice toleranceMs: at least ${2 * toleranceMs}, not ${inboxRetentionMs}, or a message could be replayed when it is forgotten`,
        ];
  return [...tooShort, ...belowTtl, ...belowTolerance, ...failedTooShort];
}
