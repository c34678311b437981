import { InvalidArgumentError } from "../../errors.js";
import { webhookDefaults } from "../../webhooks/route-options.js";
import { checkScheme } from "../../webhooks/schemes/check-scheme.js";
import { createDelivery, type Delivery } from "../../webhooks/schemes/delivery.js";
import { type FetchText, fetchText as fetched } from "../../webhooks/schemes/fetch-text.js";
import type { WebhookScheme } from "../../webhooks/schemes/scheme.js";
import { type ResolvedSource, resolveSources } from "../../webhooks/sources.js";
import type { CapturedRequest } from "./read-http-request.js";

/** A request, and the source that it would be sent to. */
export interface Attempt {
  readonly request: Omit<CapturedRequest, "notes">;
  readonly scheme: WebhookScheme;
  readonly secrets: readonly string[];
  readonly toleranceMs?: number | undefined;
  /** When the request arrives. */
  readonly at: Date;
  /** Fetches certificates and keys of providers: by https, by default. */
  readonly fetchText?: FetchText;
}

/** Returns why the route would refuse the request, by the code that the route itself uses. Undefined when it would not. */
export async function refusalOfAttempt(attempt: Attempt): Promise<string | undefined> {
  let source: ResolvedSource;
  try {
    source = sourceOf(attempt);
  } catch (error) {
    if (error instanceof InvalidArgumentError) return error.message; // a secret that the scheme cannot use
    throw error;
  }
  return source.verify(deliveryOf(attempt));
}

export const deliveryOf = ({ request }: Attempt): Delivery => createDelivery(request);

export function sourceOf({ scheme, secrets, toleranceMs, at, fetchText = fetched }: Attempt): ResolvedSource {
  const { handshakes: _, ...rest } = scheme; // they may need a token that is not at hand
  const source = { scheme: rest, secrets, allowShortSecrets: true };
  const sources = resolveSources(
    { source: toleranceMs === undefined ? source : { ...source, toleranceMs } },
    [],
    { ...webhookDefaults, readScheme: checkScheme, clock: () => at, onStale: () => {}, fetchText },
  );
  return sources.get("source")!;
}

/** Whether the provider signs the address that it calls. */
export const signsUrl = ({ verify }: WebhookScheme): boolean =>
  verify.kind === "signature" &&
  [verify.signed].flat().some((template) => /\{(url|decodedUrl)\}/.test(template ?? ""));
