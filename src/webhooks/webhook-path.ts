/** The parts of `/webhooks/{source}` or `/webhooks/{source}/{tenant}`, as they stand in a URL. */
export interface WebhookPath {
  /** Without what a gateway puts before it. */
  readonly path: string;
  readonly source: string;
  readonly tenant: string | undefined;
}

export function webhookPath(url: string): WebhookPath {
  const [, path = "", source = "", tenant] =
    /^.*(\/webhooks\/([^/]+)(?:\/([^/]+))?\/?)$/.exec(new URL(url).pathname) ?? [];
  return { path, source, tenant };
}

/** undefined when it is not well encoded: nobody's name. */
export function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
