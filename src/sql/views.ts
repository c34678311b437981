import type { Phase } from "../queue/message.js";
import { reasons } from "./dead-letters.js";
import { status } from "./dialect.js";
import { literal, type QueueNames } from "./names.js";

const word = (phase: Phase) => `'${phase}'`;

/** How a dialect writes what its views need. */
export interface ShownStatusParts {
  /** A condition: the message is done. */
  readonly isDone: string;
  /** A condition: a pause holds the message `m`. */
  readonly isPaused: string;
  /** Of an inbox: the column that says how an operator has resolved a done message, or null. */
  readonly resolution: string;
}

/** The phase of the message `m` with the state `s`, by the same rules as `phases` of a queue's `stats`. */
export const shownStatus = (
  n: QueueNames,
  { isDone, isPaused, resolution }: ShownStatusParts,
): string => `case
    when ${isDone} then ${n.kind === "inbox" ? `coalesce(${resolution}, ${word("done")})` : word("done")}${n.kind === "inbox" ? `\n    when s.status = ${status.seen} then ${word("seen")}` : ""}
    when s.status = ${status.dead} then ${word("dead")}
    when s.locked_until is not null then ${word("running")}
    when ${isPaused} then ${word("paused")}
    when s.attempt > 0 then ${word("retrying")}
    else ${word("waiting")}
  end`;

/** The specification's name of the same. */
export const shownState = (n: QueueNames, { isDone }: ShownStatusParts): string =>
  n.kind === "inbox"
    ? `case
    when ${isDone} then 'Done'
    when s.status = ${status.seen} then 'Seen'
    when s.status = ${status.dead} then 'Dead'
    else 'Processing'
  end`
    : `case
    when ${isDone} then 'Done'
    when s.status = ${status.dead} then 'Failed'
    when s.locked_until is not null then 'InProgress'
    else 'Ready'
  end`;

/** How a dialect writes what the view needs. `topic` and `headers` are columns. */
interface SentViewParts {
  /** The outbox's own view. */
  readonly from: string;
  /** The name of a column of both views. */
  readonly column: (name: string) => string;
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
export function sentQuery({ from, column, destination, endpoint, header, now }: SentViewParts): string {
  const v = (name: string) => `v.${column(name)}`;
  const as = (name: string) => `as ${column(name)}`;
  // null without a limit
  const maxRetries = `cast(nullif(${header(v("Headers"), shownHeaders.maxRetries)}, 'Infinity') as int)`;
  return `select
  ${v("MessageId")},
  ${v("CorrelationId")},
  ${header(v("Headers"), shownHeaders.messageType)} ${as("MessageType")},
  ${destination(v("Topic"))} ${as("Destination")},
  ${endpoint(v("Topic"))} ${as("Endpoint")},
  case ${v("State")}
    when 'Ready' then 'Pending'
    when 'InProgress' then 'Sending'
    when 'Done' then 'Sent'
    else case when ${v("ExpiresAt")} <= ${now} or ${v("LastError")} like ${literal(`${reasons.expired}%`)} then 'Expired' else 'Failed' end
  end ${as("State")},
  case when ${v("RetryCount")} > ${maxRetries} then ${maxRetries} else ${v("RetryCount")} end ${as("RetryCount")},
  ${maxRetries} ${as("MaxRetries")},
  case when ${v("State")} = 'Ready' and ${v("RetryCount")} > 0 then ${v("NextAttemptAt")} end ${as("NextRetryAt")},
  ${v("LastAttemptAt")},
  ${v("LastError")},
  ${v("CreatedAt")},
  ${v("ProcessedAt")} ${as("SentAt")},
  ${v("ExpiresAt")}
from ${from} v`;
}
