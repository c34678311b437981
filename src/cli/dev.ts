import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { type LocalRun, type LocalRunOptions, startLocalRun } from "../adapters/local/local-run.js";
import type { AppDefinition } from "../app/app-definition.js";
import { defined } from "../base/defined.js";
import type { Environment } from "../config/environment.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import { signWebhook } from "../webhooks/signing/sign-webhook.js";
import {
  type Command,
  type CommandInput,
  count,
  databaseHelp,
  databaseOptions,
  exitCodes,
  type Terminal,
  text,
  UsageError,
} from "./command.js";
import { withDevAdmin } from "./dev-admin.js";
import { devLogger } from "./dev-logger.js";
import { type DevSource, devSources, devToken } from "./dev-sources.js";
import { watchDev } from "./dev-watch.js";
import { developmentDocuments } from "./development-documents.js";
import {
  type DevelopmentKeys,
  developmentSecretOf,
  keyTypeOf,
  newDevelopmentKeys,
  signingWith,
} from "./development-keys.js";
import { developmentSecrets, isThisMachine, shareDevelopmentKeys } from "./development-secrets.js";
import { exampleEvent } from "./example-event.js";
import { withFirstTopic } from "./first-topic.js";
import { definitionFor, devDatabase } from "./load-app.js";
import { providerTopic } from "./provider-topic.js";
import { quoted } from "./quoted.js";
import { secretStores } from "./secret-stores.js";

export const devCommand: Command = {
  name: "dev",
  summary:
    "run the functions on this machine: webhooks, the service and the admin page by HTTP, the other jobs by timers",
  usage: "dev [--app FILE] [--port N] [--try] [--watch] [--backup DIR] [options]",
  options: {
    ...databaseOptions,
    port: { type: "string" },
    host: { type: "string" },
    try: { type: "boolean" },
    watch: { type: "boolean" },
    backup: { type: "string" },
  },
  help: {
    port: "the port, instead of PORT; 7071 by default, 0 for any free port",
    host: "the address to listen at; 127.0.0.1 by default, which only this machine can reach",
    try: "send an example webhook twice",
    watch: "start again when a source file of the app's project changes",
    backup: "back up the SQLite databases to this folder every hour, and keep the back-ups for 7 days",
    ...databaseHelp,
    json: "print only log lines, as JSON; on a terminal they are made readable otherwise",
  },
  examples: [
    "oncebox dev --app app.js",
    "PORT=8080 ONCEBOX_DATABASE_URL=postgres://app@localhost/orders oncebox dev --app app.js",
  ],
  async run(input) {
    const { values, terminal } = input;
    if (values.watch) return watchDev(input);
    const loaded = await definitionFor(input);
    const host = text(values, "host") ?? "127.0.0.1";
    const admin = withDevAdmin(loaded.definition, loaded.environment, host);
    const { definition, firstTopic } = withFirstTopic({
      database: devDatabase,
      ...admin.definition,
    });
    const port = count(values, "port") ?? loaded.environment.port;
    if (port > 65_535) throw new UsageError("--port must be a number from 0 to 65535.");
    const backupTo = text(values, "backup");
    const sources = await devSources(definition, loaded.environment);
    const keys = await newDevelopmentKeys(sources.flatMap((one) => (one.isDevelopment ? one.scheme : [])));
    const isLocal = isThisMachine(host);
    const secrets = isLocal ? developmentSecrets(definition, loaded.environment, sources, keys) : {};
    const environment: Environment = {
      ...loaded.environment,
      port,
      env: { ...loaded.environment.env, ...secrets, ...admin.env },
    };
    const local = await started(isLocal ? withDocuments(definition, keys) : definition, {
      environment,
      host,
      logger: devLogger(input, environment.logLevel),
      resolveSecret: secretStores(environment.env),
      ...defined({ backup: backupTo === undefined ? undefined : { to: backupTo } }),
    });
    const unshare = await shareDevelopmentKeys(Number(new URL(local.url).port || 80), keys);
    try {
      const sample = values.try ? sampleOf(sources, keys) : undefined;
      if (!values.json) {
        introduce(input, local, sources, keys, firstTopic());
        if (local.app.service !== undefined)
          introduceService(terminal, local.url, shownToken(definition, loaded.environment, keys));
        if (local.app.admin !== undefined)
          terminal.out(`  the admin page    ${adminLink(local.url, admin.token, sample)}`);
      }
      if (sample !== undefined) await tryOut(terminal, local.url, sample, firstTopic());
      if (!terminal.signal.aborted) await once(terminal.signal, "abort");
      if (!values.json)
        terminal.out("Stopping. Running handlers are finished first. Ctrl-C again ends it at once.");
    } finally {
      await unshare();
      await local.stop();
    }
    return exitCodes.ok;
  },
};

/** Providers that publish their key cannot be asked for that of this run. */
const withDocuments = (definition: AppDefinition, keys: DevelopmentKeys): AppDefinition => ({
  ...definition,
  webhooks: { ...definition.webhooks, fetchText: developmentDocuments(keys) },
});

async function started(definition: AppDefinition, options: LocalRunOptions): Promise<LocalRun> {
  try {
    return await startLocalRun(definition, options);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    throw new Error(
      `The port ${options.environment.port} is in use (EADDRINUSE). Choose another one with --port or PORT.`,
    );
  }
}

function introduce(
  { terminal, values }: CommandInput,
  { url, app }: LocalRun,
  sources: readonly DevSource[],
  keys: DevelopmentKeys,
  topic: string | undefined,
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
const shownToken = (
  definition: AppDefinition,
  environment: Environment,
  keys: DevelopmentKeys,
): string | undefined =>
  definition.service?.auth === "none" ? undefined : (devToken(definition, environment, keys) ?? "YOUR-TOKEN");

function introduceService(terminal: Terminal, url: string, token: string | undefined): void {
  const header = token === undefined ? "" : ` -H ${quoted(`authorization: Bearer ${token}`)}`;
  terminal.out(`  the inbox service  curl ${url}/v1/inbox/try-begin${header} -d ${quoted('{"key":"a"}')}`);
}

/** The page takes the token out of the link, and no server sees what stands behind the #. */
/** A link with the token signs in, and the page then follows the example webhook. A token of the user's own is not printed. */
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

const exampleId = (): string => `evt_${randomUUID().slice(0, 8)}`;

/** The webhook that `--try` sends. */
interface Sample {
  readonly id: string;
  readonly source: DevSource;
  readonly keys: DevelopmentKeys;
}

function sampleOf(sources: readonly DevSource[], keys: DevelopmentKeys): Sample | undefined {
  const source = sources.find(({ isDevelopment }) => isDevelopment);
  return source && { id: exampleId(), source, keys };
}

/** Sends a webhook and its duplicate. The log lines that follow, and the admin page, show how it is handled. */
async function tryOut(
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
