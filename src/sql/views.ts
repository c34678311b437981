import type { Phase } from "../queue/message.js";
import { reasons } from "./dead-letters.js";
import { status } from "./dialect.js";
import { literal, type QueueNames } from "./names.js";

const word = (phase: Phase) => `'${phase}'`;

/** How a dialect writes what the view of a queue needs. The view has the specification's columns, then our own. */
export interface ShownParts {
  /** A condition: the message is done. */
  readonly isDone: string;
  /** A condition: a pause holds the message `m`. */
  readonly isPaused: string;
  /** Of an inbox: the column that says how an operator has resolved a done message, or null. */
  readonly resolution: string;
}

/** The phase of the message `m` with the state `s`, by the same rules as `phases` of a queue's `stats`. */
export const shownPhase = (n: QueueNames, { isDone, isPaused, resolution }: ShownParts): string => `case
    when ${isDone} then ${n.kind === "inbox" ? `coalesce(${resolution}, ${word("done")})` : word("done")}${n.kind === "inbox" ? `\n    when s.status = ${status.seen} then ${word("seen")}` : ""}
    when s.status = ${status.dead} then ${word("dead")}
    when s.locked_until is not null then ${word("running")}
    when ${isPaused} then ${word("paused")}
    when s.attempt > 0 then ${word("retrying")}
    else ${word("waiting")}
  end`;

/** The specification's value of the same: a name in an inbox, a number in an outbox. */
export const shownStatus = (n: QueueNames, { isDone }: ShownParts): string =>
  n.kind === "inbox"
    ? `case
    when ${isDone} then 'Done'
    when s.status = ${status.seen} then 'Seen'
    when s.status = ${status.dead} then 'Dead'
    else 'Processing'
  end`
    : `case
    when ${isDone} then ${outboxStatus.done}
    when s.status = ${status.dead} then ${outboxStatus.failed}
    when s.locked_until is not null then ${outboxStatus.inProgress}
    else ${outboxStatus.ready}
  end`;

/** The numbers that the specification gives the states of an outbox. Those of our tables are others. */
const outboxStatus = { ready: 0, inProgress: 1, done: 2, failed: 3 } as const;

/** How a dialect writes what the view of a service's outbox needs. `topic` and `headers` are columns. */
interface SentViewParts {
  /** The outbox's own view. */
  readonly from: string;
  readonly destination: (topic: string) => string;
  readonly endpoint: (topic: string) => string;
  /** The text of one header. A service sends only headers that every database can read from JSON. */
  readonly header: (headers: string, name: string) => string;
  /** The present time, as the outbox's view writes times. */
  readonly now: string;
}

/** The headers of a stored message that its view shows as columns. */
export const shownHeaders = { messageType: "rf-message-type", maxRetries: "rf-max-retries" } as const;

/** The query of the view of a service's outbox, with the states by which reliable messaging names them. */
export function sentQuery({ from, destination, endpoint, header, now }: SentViewParts): string {
  // null without a limit
  const maxRetries = `cast(nullif(${header("v.Headers", shownHeaders.maxRetries)}, 'Infinity') as int)`;
  return `select
  v.MessageId,
  v.CorrelationId,
  ${header("v.Headers", shownHeaders.messageType)} as MessageType,
  ${destination("v.Topic")} as Destination,
  ${endpoint("v.Topic")} as Endpoint,
  case v.Status
    when ${outboxStatus.ready} then 'Pending'
    when ${outboxStatus.inProgress} then 'Sending'
    when ${outboxStatus.done} then 'Sent'
    else case when v.ExpiresAt <= ${now} or v.LastError like ${literal(`${reasons.expired}%`)} then 'Expired' else 'Failed' end
  end as State,
  case when v.RetryCount > ${maxRetries} then ${maxRetries} else v.RetryCount end as RetryCount,
  ${maxRetries} as MaxRetries,
  case when v.Status = ${outboxStatus.ready} and v.RetryCount > 0 then v.NextAttemptAt end as NextRetryAt,
  v.LastAttemptAt,
  v.LastError,
  v.CreatedAt,
  v.ProcessedAt as SentAt,
  v.ExpiresAt
from ${from} v`;
}
