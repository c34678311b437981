import { defined } from "../base/defined.js";
import { inSpan, sentHeaders } from "../base/tracing.js";
import { permanentFailure } from "../dispatch/settlement.js";
import { guarded } from "../publishers/guarded.js";
import { sendSpan } from "../publishers/publish-to.js";
import { RefusedMessage } from "../publishers/refused-message.js";
import type { Envelope } from "./envelope.js";
import type { ServiceParts } from "./service-parts.js";
import type { TransportResponse } from "./transport.js";

/** Sends a message once. Resolves when its receiver has acknowledged it. */
export type Deliver = (
  destination: string,
  message: Envelope,
  signal: AbortSignal,
) => Promise<TransportResponse>;

type DeliverOne = (
  message: Envelope,
  context: { readonly signal: AbortSignal },
) => Promise<TransportResponse>;

/** Each destination has a circuit breaker and a time limit around its transport. */
export function deliverer({ options, settings, destinations, reports }: ServiceParts): Deliver {
  const { breaker, metrics, tracing, clock } = options;
  const now = clock && (() => clock().getTime());
  const guard = defined({ timeoutMs: settings.timeoutMs, breaker, logger: reports.logger, metrics, now });
  const each = new Map(
    [...destinations.values()].map(({ transport, ...target }): [string, DeliverOne] => {
      const { serviceId } = target;
      const sendOnce: DeliverOne = async (message, { signal }) => {
        const startedAt = performance.now();
        try {
          return acknowledged(await transport.send(message, target, { signal }), serviceId);
        } finally {
          const { messageId, endpoint } = message;
          reports.sendTook({ messageId, destination: serviceId, endpoint }, performance.now() - startedAt);
        }
      };
      const send: DeliverOne = (message, context) => {
        if (tracing === undefined) return sendOnce(message, context);
        const { endpoint, messageId } = message;
        const sendTraced = () =>
          sendOnce({ ...message, headers: sentHeaders(tracing, message.headers) ?? {} }, context);
        return inSpan(tracing, sendSpan(serviceId, endpoint, messageId), sendTraced);
      };
      return [serviceId, guarded(`The service ${serviceId}`, guard, send)];
    }),
  );
  return (destination, message, signal) => each.get(destination)!(message, { signal });
}

/** A receiver that refuses one message is working, so its circuit breaker stays closed. */
function acknowledged(response: TransportResponse, serviceId: string): TransportResponse {
  if (response.acknowledged || response.duplicateDetected) return response;
  const error = response.error ?? `${serviceId} did not acknowledge the message.`;
  throw response.permanent ? permanentFailure(error) : new RefusedMessage(error);
}
