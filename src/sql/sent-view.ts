/** How a dialect writes what the view needs. `topic` is a column. */
export interface SentViewParts {
  /** The outbox's own view. */
  readonly from: string;
  readonly destination: (topic: string) => string;
  readonly endpoint: (topic: string) => string;
  /** The present time, as the outbox's view writes times. */
  readonly now: string;
}

/**
 * The query of the view of a service's outbox, with the states by which reliable messaging names them. The column names are
 * quoted as all three databases understand.
 */
export const sentQuery = ({ from, destination, endpoint, now }: SentViewParts): string => `select
  v."MessageId",
  v."CorrelationId",
  ${destination('v."Topic"')} as "Destination",
  ${endpoint('v."Topic"')} as "Endpoint",
  case v."Status"
    when 0 then 'Pending'
    when 1 then 'Sending'
    when 2 then 'Sent'
    else case when v."ExpiresAt" <= ${now} then 'Expired' else 'Failed' end
  end as "State",
  v."RetryCount",
  v."NextAttemptAt" as "NextRetryAt",
  v."LastError",
  v."CreatedAt",
  v."ProcessedAt" as "SentAt",
  v."ExpiresAt"
from ${from} v`;
