import { randomUUID } from "node:crypto";
import { signWebhook } from "../webhooks/signing/sign-webhook.js";
import type { Terminal } from "./command.js";
import type { DevSource } from "./dev-sources.js";
import { type DevelopmentKeys, signingWith } from "./development-keys.js";
import { exampleEvent } from "./example-event.js";
import { providerTopic } from "./provider-topic.js";

export const exampleId = (): string => `evt_${randomUUID().slice(0, 8)}`;

/** The webhook that `--try` sends. */
export interface Sample {
  readonly id: string;
  readonly source: DevSource;
  readonly keys: DevelopmentKeys;
}

export function sampleOf(sources: readonly DevSource[], keys: DevelopmentKeys): Sample | undefined {
  const source = sources.find(({ isDevelopment }) => isDevelopment);
  return source && { id: exampleId(), source, keys };
}

/** Sends a webhook and its duplicate. The log lines that follow, and the admin page, show how it is handled. */
export async function tryOut(
  terminal: Terminal,
  url: string,
  { id, source, keys }: Sample,
  topic = providerTopic(source.knownScheme),
): Promise<void> {
  const event = exampleEvent(source.scheme, id, topic);
  const request = signWebhook(source.scheme, {
    url: `${url}/webhooks/${encodeURIComponent(source.source)}`,
    body: event.body,
    headers: event.headers,
    ...signingWith(source.scheme, keys),
    messageId: id,
    topic,
  });
  for (const what of ["a webhook arrives", "the provider sends it again"]) {
    const response = await fetch(request.url, request as RequestInit);
    terminal.out(`${what}: ${response.status} ${await response.text()}`);
  }
}
