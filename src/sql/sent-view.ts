import { literal } from "./literal.js";
import { reasons } from "./reasons.js";

/** How a dialect writes what the view needs. `topic` and `headers` are columns. */
export interface SentViewParts {
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
  const maxRetries = `cast(${header(v("Headers"), shownHeaders.maxRetries)} as int)`;
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
