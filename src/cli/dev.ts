import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { type LocalRun, type LocalRunOptions, startLocalRun } from "../adapters/local/local-run.js";
import type { AppDefinition } from "../app/definition.js";
import { type AppSource, isReference } from "../app/sources.js";
import { omitUndefined } from "../base/defined.js";
import { jsonLogger, type Logger, type LogLevel } from "../base/logger.js";
import type { Environment } from "../config/environment.js";
import { overridableFields } from "../webhooks/schemes/read-scheme.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import { signWebhook } from "../webhooks/signing/sign-webhook.js";
import { schemeOf, withOverrides } from "../webhooks/sources.js";
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
import { watchDev } from "./dev-watch.js";
import {
  type DevelopmentKeys,
  developmentDocuments,
  developmentSecretOf,
  developmentSecrets,
  isThisMachine,
  keyTypeOf,
  newDevelopmentKeys,
  type SchemedSource,
  shareDevelopmentKeys,
  signingWith,
  unsetVariables,
} from "./development-keys.js";
import { exampleEvent, providerTopic, withFirstTopic } from "./example-event.js";
import { definitionFor, devDatabase, secretStores } from "./load-app.js";
import { quoted } from "./output.js";

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
      ...omitUndefined({ backup: backupTo === undefined ? undefined : { to: backupTo } }),
    });
    const unshare = await shareDevelopmentKeys(Number(new URL(local.url).port || 80), keys);
    try {
      const sample = values.try ? sampleOf(sources, keys) : undefined;
      if (!values.json) {
        introduce(input, {
          local,
          definition,
          environment: loaded.environment,
          sources,
          keys,
          topic: firstTopic(),
          adminToken: admin.token,
          sample,
        });
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

interface DevSource extends SchemedSource {
  readonly source: string;
  /** The name of a preset whose fields the source does not override. */
  readonly knownScheme: string | undefined;
  /** The source has no secret of its own, and signs with those of this run. */
  readonly isDevelopment: boolean;
}

/** Returns the sources with their schemes, of which presets are loaded. */
async function devSources(
  definition: AppDefinition,
  environment: Environment,
): Promise<readonly DevSource[]> {
  const sources = { ...definition.sources, ...environment.sources } as Readonly<Record<string, AppSource>>;
  return Promise.all(
    Object.entries(sources).map(async ([source, given]) => {
      const isOverridden = overridableFields.some((field) => given[field] !== undefined);
      return {
        source,
        scheme: withOverrides(await schemeOf(given.scheme), given) as WebhookScheme,
        secrets: given.secrets,
        verifyToken: given.verifyToken,
        knownScheme: typeof given.scheme === "string" && !isOverridden ? given.scheme : undefined,
        isDevelopment: unsetVariables([given.secrets].flat()[0], environment.env).length > 0,
      };
    }),
  );
}

/** The service's token, where it is that of this run and may be printed. */
const devToken = (
  { service }: AppDefinition,
  { env }: Environment,
  { secret }: DevelopmentKeys,
): string | undefined => (unsetVariables([service?.tokens].flat()[0], env).length > 0 ? secret : undefined);

/** What a local run has, and what its introduction says of it. */
interface DevRun {
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
function introduce(input: CommandInput, run: DevRun): void {
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

interface DevAdmin {
  readonly definition: AppDefinition;
  /** Variables to set beside those of the environment. */
  readonly env: Readonly<Record<string, string>>;
  /** The token of this run; undefined where the user has given tokens. */
  readonly token: string | undefined;
}

/**
 * Gives a run that no other machine can reach the diagnostics API, also where the app defines none. Its token is made anew
 * for each run. A token that everybody knows would let a web page in that resolves its own name to this machine.
 */
function withDevAdmin(definition: AppDefinition, { env }: Environment, host: string): DevAdmin {
  if (!isThisMachine(host)) return { definition, env: {}, token: undefined };
  const { admin = { tokens: { from: "env", name: "ONCEBOX_ADMIN_TOKENS" } } } = definition;
  const unset = [admin.tokens]
    .flat()
    .flatMap((token) => (isReference(token) && token.from === "env" && !env[token.name] ? [token.name] : []));
  const made = `developer:${randomBytes(18).toString("base64url")}`;
  return {
    definition: { ...definition, admin },
    env: Object.fromEntries(unset.map((name) => [name, made])),
    token: unset.length > 0 ? made : undefined,
  };
}

/** Readable lines on a terminal, which has a width. A file, another program and `--json` get JSON. */
function devLogger({ values, terminal }: CommandInput, level: LogLevel): Logger {
  const isForPeople = terminal.columns !== undefined && values.json !== true;
  return jsonLogger(level, (line) => terminal.out(isForPeople ? readableLine(line) : line));
}

/** Time of day, level, message, and the other fields as `name=value`. */
function readableLine(json: string): string {
  const { time, level, message, ...fields } = JSON.parse(json) as Readonly<Record<string, unknown>>;
  const shown = Object.entries(fields)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name}=${plain(value)}`);
  const head = `${String(time).slice(11, 23)} ${String(level).padEnd(5)} ${message}`;
  return shown.length === 0 ? head : `${head}  ${shown.join(" ")}`;
}

/** Quoted only where it would run into the next field. */
const plain = (value: unknown): string =>
  typeof value === "string" && value !== "" && !/[\s="]/.test(value) ? value : JSON.stringify(value);
