import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { type LocalRun, type LocalRunOptions, startLocalRun } from "../adapters/local/local-run.js";
import type { AppDefinition } from "../app/definition.js";
import { omitUndefined } from "../base/defined.js";
import { jsonLogger, type Logger, type LogLevel } from "../base/logger.js";
import type { Environment } from "../config/environment.js";
import { overridableFields } from "../webhooks/schemes/read-scheme.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import { signWebhook } from "../webhooks/signing/sign-webhook.js";
import {
  type Command,
  type CommandInput,
  exitCodes,
  flag,
  option,
  type Terminal,
  UsageError,
} from "./command.js";
import { watchDev } from "./dev-watch.js";
import {
  type DevelopmentKeys,
  developmentDocuments,
  developmentSecretOf,
  developmentSecrets,
  isThisMachine,
  isUnset,
  keyTypeOf,
  newDevelopmentKeys,
  shareDevelopmentKeys,
  signingWith,
  unsetVariables,
} from "./development-keys.js";
import { exampleEvent, firstType, providerType, withTopics } from "./example-event.js";
import { definitionFor, devDatabase, secretStores } from "./load-app.js";
import { findSource, type KnownSource, sourcesOf } from "./sources.js";
import { count, databaseOptions, quoted, text } from "./terminal.js";

export const devCommand: Command = {
  name: "dev",
  summary:
    "run the functions on this machine: webhooks, the service and the admin page by HTTP, the other jobs by timers",
  usage: "dev [--app FILE] [--port N] [--try] [--watch] [--backup DIR] [options]",
  options: {
    port: option("the port, instead of PORT; 7071 by default, 0 for any free port"),
    host: option("the address to listen at; 127.0.0.1 by default, which only this machine can reach"),
    try: flag("send an example webhook twice"),
    watch: flag("start again when a source file of the app's project changes"),
    backup: option(
      "back up the SQLite databases to this folder every hour, and keep the back-ups for 7 days",
    ),
    ...databaseOptions,
    json: flag("print only log lines, as JSON; on a terminal they are made readable otherwise"),
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
    const port = count(values, "port") ?? loaded.environment.port;
    if (port > 65_535) throw new UsageError("--port must be a number from 0 to 65535.");
    const admin = withDevAdmin(loaded.definition, loaded.environment.env, host);
    const { definition, topics } = withTopics({ database: devDatabase, ...admin.definition });
    const sources = await devSources(definition, loaded.environment);
    const keys = await newDevelopmentKeys(sources.flatMap((one) => (one.isDevelopment ? one.scheme : [])));
    const isLocal = isThisMachine(host);
    const { env } = loaded.environment;
    const secrets = isLocal ? developmentSecrets(definition, env, sources, keys) : {};
    const environment = { ...loaded.environment, port, env: { ...env, ...secrets, ...admin.env } };
    const backup = text(values, "backup");
    const local = await started(isLocal ? withDocuments(definition, keys) : definition, {
      environment,
      host,
      logger: devLogger(input, environment.logLevel),
      resolveSecret: secretStores(environment.env),
      ...omitUndefined({ backup: backup === undefined ? undefined : { to: backup } }),
    });
    const unshare = await shareDevelopmentKeys(Number(new URL(local.url).port || 80), keys);
    try {
      const source = values.try ? sources.find(({ isDevelopment }) => isDevelopment) : undefined;
      const run: DevRun = {
        local,
        definition,
        sources,
        keys,
        topics,
        sample: source && { id: exampleId(), source },
        adminToken: admin.token,
        serviceToken: shownServiceToken(definition, env, keys),
      };
      if (!values.json) introduce(input, run);
      await sendSample(terminal, run);
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

/**
 * Gives a run that no other machine can reach the diagnostics API, also where the app defines none. Its token is made anew
 * for each run. A token that everybody knows would let a web page in that resolves its own name to this machine.
 */
function withDevAdmin(definition: AppDefinition, env: NodeJS.ProcessEnv, host: string) {
  if (!isThisMachine(host)) return { definition, env: {}, token: undefined };
  const { admin = { tokens: { from: "env", name: "ONCEBOX_ADMIN_TOKENS" } } } = definition;
  const unset = unsetVariables(admin.tokens, env);
  const made = `developer:${randomBytes(18).toString("base64url")}`;
  return {
    definition: { ...definition, admin } satisfies AppDefinition,
    /** Variables to set beside those of the environment. */
    env: Object.fromEntries(unset.map((name) => [name, made])),
    /** Undefined where the user has given tokens. */
    token: unset.length > 0 ? made : undefined,
  };
}

interface DevSource extends KnownSource {
  /** The source has no secret of its own, and signs with those of this run. */
  readonly isDevelopment: boolean;
}

const devSources = (definition: AppDefinition, environment: Environment): Promise<readonly DevSource[]> => {
  const sources = sourcesOf(definition, environment);
  return Promise.all(
    Object.entries(sources).map(async ([name, { secrets }]) => ({
      ...(await findSource(sources, name, "dev")),
      isDevelopment: isUnset([secrets].flat()[0], environment.env),
    })),
  );
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

/** What the introduction says of a run. */
interface DevRun {
  readonly local: LocalRun;
  readonly definition: AppDefinition;
  readonly sources: readonly DevSource[];
  readonly keys: DevelopmentKeys;
  /** What the app handles. */
  readonly topics: readonly string[];
  /** The webhook that `--try` sends. */
  readonly sample: { readonly id: string; readonly source: DevSource } | undefined;
  /** Undefined where the user has given tokens, which are not printed. */
  readonly adminToken: string | undefined;
  /** Undefined where the service takes requests without one. */
  readonly serviceToken: string | undefined;
}

/** A token of the user's own is not printed, but the place where it belongs is. */
function shownServiceToken({ service }: AppDefinition, env: NodeJS.ProcessEnv, keys: DevelopmentKeys) {
  if (service?.auth === "none") return undefined;
  return isUnset([service?.tokens].flat()[0], env) ? keys.secret : "YOUR-TOKEN";
}

/** Says where the run listens, and gives a command or a link for everything that it has. */
function introduce({ terminal, values }: CommandInput, run: DevRun): void {
  const { self = "npx oncebox", out } = terminal;
  const { url, app } = run.local;
  const { service, admin } = run.definition;
  const file = values.app === undefined ? "" : ` --app ${values.app}`;
  const database = app.tenants === undefined ? app.db.id : "the tenants' databases";
  out(`oncebox listens at ${url}, on ${database}. Ctrl-C stops it.`);
  out(`  status            curl ${url}/status`);
  for (const source of run.sources) {
    const { name, scheme, isDevelopment } = source;
    // The source's name finds a scheme of the app's own, and a secret that must not be printed.
    const isShared = isDevelopment && keyTypeOf(scheme) === undefined;
    const secret = isShared ? ` --secret ${developmentSecretOf(scheme, run.keys)}` : "";
    const what = (isDevelopment && presetOf(source)) || `${name}${file}`;
    const type = firstType(source, run.topics);
    const event = type === undefined ? "" : eventOptions(scheme, type);
    out(`  a ${name} webhook  ${self} sign ${what}${secret} --url ${webhookUrl(url, name)}${event} --send`);
  }
  if (run.sources.length === 0 && service === undefined)
    out("  There are no webhook sources. Give --app FILE, or set ONCEBOX_WEBHOOKS.");
  if (service !== undefined) {
    const { serviceToken: token } = run;
    const header = token === undefined ? "" : ` -H ${quoted(`authorization: Bearer ${token}`)}`;
    out(`  the inbox service  curl ${url}/v1/inbox/try-begin${header} -d ${quoted('{"key":"a"}')}`);
  }
  if (admin !== undefined) {
    // The page takes the token out of the link, and no server sees what stands behind the #.
    const following = run.sample === undefined ? "" : `&sample=${run.sample.id}`;
    const signIn = run.adminToken === undefined ? "" : `#token=${run.adminToken}${following}`;
    out(`  the admin page    ${url}/_oncebox${signIn}`);
  }
}

const webhookUrl = (url: string, source: string): string => `${url}/webhooks/${encodeURIComponent(source)}`;

/** The name of a preset whose fields the source does not override. */
function presetOf({ own }: KnownSource): string | undefined {
  const isOverridden = overridableFields.some((field) => own?.[field] !== undefined);
  return typeof own?.scheme === "string" && !isOverridden ? own.scheme : undefined;
}

/** The options of `oncebox sign` for an event of this type. */
function eventOptions(scheme: WebhookScheme, type: string): string {
  const event = exampleEvent(scheme, exampleId(), type);
  const headers = Object.entries(event.headers).map(
    ([name, value]) => ` --header ${quoted(`${name}: ${value}`)}`,
  );
  return `${headers.join("")} --body ${quoted(event.body)}`;
}

const exampleId = (): string => `evt_${randomUUID().slice(0, 8)}`;

/** Sends a webhook and its duplicate. The log lines that follow, and the admin page, show how it is handled. */
async function sendSample(terminal: Terminal, { local, sample, keys, topics }: DevRun): Promise<void> {
  if (sample === undefined) return;
  const { name, scheme } = sample.source;
  const type = firstType(sample.source, topics) ?? providerType(presetOf(sample.source));
  const request = signWebhook(scheme, {
    url: webhookUrl(local.url, name),
    ...exampleEvent(scheme, sample.id, type),
    ...signingWith(scheme, keys),
    messageId: sample.id,
    topic: type,
  });
  for (const what of ["a webhook arrives", "the provider sends it again"]) {
    const response = await fetch(request.url, request as RequestInit);
    terminal.out(`${what}: ${response.status} ${await response.text()}`);
  }
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
