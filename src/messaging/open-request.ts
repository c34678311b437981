import type { Envelope } from "./envelope.js";
import { openEnvelope } from "./open-envelope.js";
import type { ServiceParts } from "./service-parts.js";

export type OpenedRequest =
  | { readonly envelope: Envelope }
  /** 400, 401 or 413. The sender gets no detail. */
  | { readonly status: 400 | 401 | 413 };

/** Verifies the body of a request. A refused one leaves a line in the log, and no other trace. */
export function openRequest(parts: ServiceParts, body: Uint8Array): OpenedRequest {
  const { settings, serviceId, reports } = parts;
  const opened = openEnvelope(body, {
    serviceId,
    secretsOf: (source) => secretsOf(parts, source),
    now: new Date(),
    toleranceMs: settings.toleranceMs,
    maxBytes: settings.maxBodyBytes,
  });
  if (opened.kind === "opened") return { envelope: opened.envelope };
  if (opened.kind === "refused") {
    const { reason, messageId, sourceServiceId } = opened;
    reports.notVerified({ messageId, sourceServiceId }, reason);
    return { status: 401 };
  }
  reports.malformed(opened.reason);
  return { status: opened.reason === "too large" ? 413 : 400 };
}

/** Those of the source, and those of the destination of the same name. */
function secretsOf(
  { destinations, options: { sources = {} } }: ServiceParts,
  source: string,
): readonly string[] | undefined {
  const own = Object.hasOwn(sources, source) ? sources[source]!.secrets : [];
  const shared = destinations.get(source)?.secrets ?? [];
  const all = [...own, ...shared];
  return all.length === 0 ? undefined : all;
}
