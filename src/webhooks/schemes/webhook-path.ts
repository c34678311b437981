/** The parts of `/webhooks/{source}` or `/webhooks/{source}/{tenant}`, still percent-encoded. */
export interface WebhookPath {
  /** Without the prefix that a gateway adds. */
  readonly path: string;
  readonly source: string;
  readonly tenant: string | undefined;
}

export function webhookPath(url: string): WebhookPath {
  const [, path = "", source = "", tenant] =
    /^.*(\/webhooks\/([^/]+)(?:\/([^/]+))?\/?)$/.exec(new URL(url).pathname) ?? [];
  return { path, source, tenant };
}
