import type { LocalRun } from "../adapters/local/local-run.js";
import type { AppDefinition } from "../app/app-definition.js";
import type { Environment } from "../config/environment.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import type { CommandInput, Terminal } from "./command.js";
import { exampleId, type Sample } from "./dev-sample.js";
import { type DevSource, devToken } from "./dev-sources.js";
import { type DevelopmentKeys, developmentSecretOf, keyTypeOf } from "./development-keys.js";
import { exampleEvent } from "./example-event.js";
import { quoted } from "./quoted.js";

/** What a local run has, and what its introduction says of it. */
export interface DevRun {
  readonly local: LocalRun;
  readonly definition: AppDefinition;
  /** As it is without the secrets of this run. */
  readonly environment: Environment;
  readonly sources: readonly DevSource[];
  readonly keys: DevelopmentKeys;
  /** The first topic that the app handles. */
  readonly topic: string | undefined;
  readonly adminToken: string | undefined;
  readonly sample: Sample | undefined;
}

/** Says where the run listens, and gives a command or a link for everything that it has. */
export function introduce(input: CommandInput, run: DevRun): void {
  const { terminal } = input;
  const { url, app } = run.local;
  introduceWebhooks(input, run);
  if (app.service !== undefined) introduceService(terminal, url, shownToken(run));
  if (app.admin !== undefined)
    terminal.out(`  the admin page    ${adminLink(url, run.adminToken, run.sample)}`);
}

function introduceWebhooks(
  { terminal, values }: CommandInput,
  { local: { url, app }, sources, keys, topic }: DevRun,
): void {
  const { self = "npx oncebox" } = terminal;
  const file = values.app === undefined ? "" : ` --app ${values.app}`;
  const database = app.tenants === undefined ? app.db.id : "the tenants' databases";
  terminal.out(`oncebox listens at ${url}, on ${database}. Ctrl-C stops it.`);
  terminal.out(`  status            curl ${url}/status`);
  for (const { source, scheme, knownScheme, isDevelopment } of sources) {
    // The source's name finds a scheme of the app's own, and a secret that must not be printed.
    const isShared = isDevelopment && keyTypeOf(scheme) === undefined;
    const secret = isShared ? ` --secret ${developmentSecretOf(scheme, keys)}` : "";
    const what = knownScheme !== undefined && isDevelopment ? knownScheme : `${source}${file}`;
    const target = `${url}/webhooks/${encodeURIComponent(source)}`;
    const event = topic === undefined ? "" : eventOptions(scheme, topic);
    terminal.out(`  a ${source} webhook  ${self} sign ${what}${secret} --url ${target}${event} --send`);
  }
  if (sources.length === 0 && app.service === undefined) {
    terminal.out("  There are no webhook sources. Give --app FILE, or set ONCEBOX_WEBHOOKS.");
  }
}

/** A token of the user's own is not printed, but the place where it belongs is. */
const shownToken = ({ definition, environment, keys }: DevRun): string | undefined =>
  definition.service?.auth === "none" ? undefined : (devToken(definition, environment, keys) ?? "YOUR-TOKEN");

function introduceService(terminal: Terminal, url: string, token: string | undefined): void {
  const header = token === undefined ? "" : ` -H ${quoted(`authorization: Bearer ${token}`)}`;
  terminal.out(`  the inbox service  curl ${url}/v1/inbox/try-begin${header} -d ${quoted('{"key":"a"}')}`);
}

/**
 * A link with the token signs in, and the page then follows the example webhook. The page takes the token out of the link,
 * and no server sees what stands behind the #. A token of the user's own is not printed.
 */
const adminLink = (url: string, token: string | undefined, sample: Sample | undefined): string => {
  const following = sample === undefined ? "" : `&sample=${sample.id}`;
  return `${url}/_oncebox${token === undefined ? "" : `#token=${token}${following}`}`;
};

/** The options of `oncebox sign` for an event of this topic. */
function eventOptions(scheme: WebhookScheme, topic: string): string {
  const event = exampleEvent(scheme, exampleId(), topic);
  const headers = Object.entries(event.headers).map(
    ([name, value]) => ` --header ${quoted(`${name}: ${value}`)}`,
  );
  return `${headers.join("")} --body ${quoted(event.body)}`;
}
