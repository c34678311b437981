import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { foreignRequest } from "../adapters/local/local-run.js";
import type { AppSource } from "../app/sources.js";
import { omitUndefined } from "../base/defined.js";
import { type LogFields, type Logger, safeReason } from "../base/logger.js";
import { openDatabase } from "../config/open-database.js";
import { openBodies, readBody } from "../http/body.js";
import { closeServer, listening as listenAt, respondTo } from "../http/node.js";
import { createInbox } from "../inbox/inbox.js";
import { migrate } from "../sql/migrate.js";
import { isPresetName, presetNames } from "../webhooks/preset-names.js";
import { createWebhookRoute } from "../webhooks/route.js";
import { type ReceivedWebhook, type WebhookInbox, webhookDefaults } from "../webhooks/route-options.js";
import { createDelivery, parseJson } from "../webhooks/schemes/delivery.js";
import type { FetchText } from "../webhooks/schemes/provider-keys.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import { jsonText } from "../webhooks/schemes/template.js";
import { schemeOf, withOverrides } from "../webhooks/sources.js";
import {
  type Command,
  type CommandInput,
  count,
  exitCodes,
  type Terminal,
  text,
  UsageError,
} from "./command.js";
import {
  type DevelopmentKeys,
  developmentDocuments,
  developmentSecretOf,
  newDevelopmentKeys,
  shareDevelopmentKeys,
  unsetVariables,
} from "./development-keys.js";
import { type Attempt, type Explanation, explainRefusal, signedTexts } from "./explain-refusal.js";
import { definitionFor } from "./load-app.js";
import { givenSecret, resolvedSecrets, secretsOfTenant } from "./sources.js";

const host = "127.0.0.1";

export const listenCommand: Command = {
  name: "listen",
  summary: "receive webhooks here, and show of each whether it is genuine, and why not",
  usage: "listen [SOURCE|PROVIDER …] [--app FILE] [--secret SECRET] [--port N] [options]",
  positionals: 100,
  options: {
    app: { type: "string" },
    secret: { type: "string" },
    "secret-env": { type: "string" },
    url: { type: "string" },
    port: { type: "string" },
    json: { type: "boolean" },
  },
  help: {
    app: "the app whose sources can be named, besides those of ONCEBOX_WEBHOOKS",
    secret: "the secret of the providers that are named; each run makes one of its own by default",
    "secret-env": "an environment variable with the secret, to keep it out of the shell's history",
    url: "the public address of a tunnel to this machine, for providers that sign the URL",
    port: "the port, instead of PORT; 7071 by default, 0 for any free port",
    json: "print JSON: one line for the address, and one for each request",
  },
  examples: [
    "oncebox listen",
    "oncebox listen stripe --secret-env STRIPE_SECRET --url https://example.ngrok.app",
    "oncebox listen --app app.js",
  ],
  async run(input) {
    const { values, terminal } = input;
    const { sources, keys, port } = await listenSources(input);
    const publicUrl = text(values, "url")?.replace(/\/+$/, "");
    if (publicUrl !== undefined && !URL.canParse(publicUrl))
      throw new UsageError("--url must be an absolute URL.");
    const db = await openDatabase("sqlite::memory:"); // to tell duplicates; nothing is handled, and nothing is kept
    await migrate(db, { outbox: false });
    const run = await startListening({
      sources,
      inbox: createInbox(db),
      fetchText: developmentDocuments(keys),
      publicUrl,
      host,
      port: count(values, "port") ?? port,
      show: (report) => terminal.out(values.json ? JSON.stringify(report) : reportText(report, new Date())),
      failed: (error) => terminal.err(`oncebox listen: ${safeReason(error)}`),
    });
    const unshare = await shareDevelopmentKeys(run.port, keys);
    try {
      const names = [...sources.keys()];
      const url = `http://${host}:${run.port}`;
      if (values.json) terminal.out(JSON.stringify({ url, sources: names }));
      else introduce(url, names, terminal);
      if (!terminal.signal.aborted) await once(terminal.signal, "abort");
    } finally {
      await unshare();
      await run.stop();
      await db.close();
    }
    return exitCodes.ok;
  },
};

function introduce(url: string, names: readonly string[], { out, self = "npx oncebox" }: Terminal): void {
  const shown = names.length > 5 ? `${names.length} providers` : names.join(", ");
  out(`oncebox listens at ${url}/webhooks/… for ${shown}. Nothing is handled. Ctrl-C stops it.`);
  const [first = "stripe"] = names;
  out(`  a webhook  ${self} sign ${first} --url ${url}/webhooks/${encodeURIComponent(first)} --send`);
}

/** A source whose scheme is loaded and whose secrets are at hand. */
interface ListenSource {
  readonly scheme: WebhookScheme;
  /** Empty with `tenantSecrets`. */
  readonly secrets: readonly string[];
  readonly tenantSecrets?: AppSource["tenantSecrets"] | undefined;
  readonly toleranceMs?: number | undefined;
}

interface ListenSources {
  readonly sources: ReadonlyMap<string, ListenSource>;
  readonly keys: DevelopmentKeys;
  readonly port: number;
}

/** The sources and providers that are named, or all sources of the app, or else all providers. */
async function listenSources(input: CommandInput): Promise<ListenSources> {
  const { definition, environment } = await definitionFor(input);
  const ofApp = { ...definition.sources, ...environment.sources } as Readonly<Record<string, AppSource>>;
  const names = namesFor(input.positionals, Object.keys(ofApp));
  const schemes = await Promise.all(names.map((name) => loaded(name, ofApp[name])));
  const keys = await newDevelopmentKeys(schemes);
  const given = givenSecret(input.values, input.terminal.env);
  const sources = await Promise.all(
    names.map(async (name, index) => {
      const scheme = schemes[index]!;
      const own = ofApp[name];
      const made = given ?? developmentSecretOf(scheme, keys);
      const isUnset = own === undefined || unsetVariables(own.secrets, environment.env).length > 0;
      const secrets = isUnset ? [made] : await resolvedSecrets(own.secrets, environment.env);
      return [
        name,
        { scheme, secrets, toleranceMs: own?.toleranceMs, tenantSecrets: own?.tenantSecrets },
      ] as const;
    }),
  );
  return { sources: new Map(sources), keys, port: environment.port };
}

function namesFor(given: readonly string[], ofApp: readonly string[]): readonly string[] {
  const unknown = given.find((name) => !ofApp.includes(name) && !isPresetName(name));
  if (unknown !== undefined) {
    const all = [...new Set([...ofApp, ...presetNames])].join(", ");
    throw new UsageError(
      `listen knows no source or provider ${JSON.stringify(unknown)}: name one of ${all}.`,
    );
  }
  if (given.length > 0) return [...new Set(given)];
  return ofApp.length > 0 ? ofApp : presetNames;
}

const loaded = async (name: string, source: AppSource | undefined): Promise<WebhookScheme> =>
  withOverrides(await schemeOf(source?.scheme ?? name), source ?? {}) as WebhookScheme;

interface ListenOptions extends Listening {
  readonly host: string;
  readonly port: number;
  show(report: Report): void;
  failed(error: unknown): void;
}

/** Receives webhooks at this machine. Returns the port, and what stops it. */
async function startListening(options: ListenOptions): Promise<{
  readonly port: number;
  stop(): Promise<void>;
}> {
  const { host, port, show, failed, ...listening } = options;
  const { maxBodyBytes, bodyMs, maxUnverifiedBytes } = webhookDefaults;
  const among = openBodies({ maxBytes: maxUnverifiedBytes });
  const route = async (request: Request): Promise<Response> => {
    const body = await readBody(request, { maxBytes: maxBodyBytes, withinMs: bodyMs, among });
    if (typeof body === "string") return new Response(null, { status: 413 });
    const { response, report } = await receiveAndReport(request, body, listening);
    show(report);
    return response;
  };
  const server = createServer((incoming, outgoing) => {
    if (foreignRequest(incoming, host) !== undefined) outgoing.writeHead(403).end();
    else void respondTo(incoming, outgoing, route, failed);
  });
  await listenAt(server, { port, host });
  return { port: (server.address() as AddressInfo).port, stop: () => closeServer(server, 1_000) };
}

/** What came, and what became of it. */
interface Report extends Explanation {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  /** The fields of the route's log line: source, outcome, id, topic, tenant, reason. */
  readonly fields: LogFields;
  /** The new messages: of a batch there may be several. */
  readonly events: readonly ReceivedWebhook[];
  /** The exact texts that the signatures must cover. */
  readonly signed: readonly string[];
}

interface Listening {
  /** The address of a tunnel, without the path. */
  readonly publicUrl: string | undefined;
  readonly sources: ReadonlyMap<string, ListenSource>;
  readonly inbox: WebhookInbox;
  readonly fetchText: FetchText;
}

/** Lets the route receive a request, and explains its answer. */
async function receiveAndReport(
  request: Request,
  body: Uint8Array,
  listening: Listening,
): Promise<{ readonly response: Response; readonly report: Report }> {
  const { method, headers } = request;
  const hasBody = method !== "GET" && method !== "HEAD";
  let fields: LogFields = {};
  const events: ReceivedWebhook[] = [];
  const keep = (_message: string, given?: LogFields): void => {
    fields = given ?? {};
  };
  const logger: Logger = { debug() {}, info: keep, warn: keep, error: keep };
  const { sources, inbox, fetchText, publicUrl } = listening;
  const route = createWebhookRoute({
    ...omitUndefined({ publicUrl }),
    inbox,
    fetchText,
    logger,
    afterEnqueue: (webhook) => events.push(webhook),
    // a handshake's token is that of the source: nothing else is at hand
    sources: Object.fromEntries([...sources].map(([name, one]) => [name, routeSource(one)])),
  });
  const response = await route(new Request(request.url, { method, headers, ...(hasBody ? { body } : {}) }));
  const source = sources.get(String(fields.source));
  const told = fields.reason === "signature missing" ? verificationTokenAdvice(body) : undefined;
  const { pathname, search } = new URL(request.url);
  const seen = { method, path: pathname + search, status: response.status, fields, events };
  if (source === undefined) return { response, report: { ...seen, signed: [] } };
  if (told !== undefined)
    return {
      response: new Response(null),
      report: { ...seen, status: 200, ...told, fields: {}, signed: [] },
    };
  const url = publicUrl === undefined ? request.url : publicUrl + pathname + search;
  const captured = { method, url, headers, body };
  const { scheme, toleranceMs } = source;
  const secrets = await secretsFor(source, captured);
  const attempt: Attempt = { request: captured, scheme, secrets, toleranceMs, at: new Date(), fetchText };
  // a tenant without secrets is unknown, which the route has said
  const isToExplain = fields.outcome === "unauthorized" && secrets.length > 0;
  const explanation = isToExplain ? await explainRefusal(attempt) : {};
  return { response, report: { ...seen, ...explanation, signed: signedTexts(attempt) } };
}

const secretsFor = async (
  { scheme, secrets, tenantSecrets }: ListenSource,
  request: Attempt["request"],
): Promise<readonly string[]> =>
  tenantSecrets === undefined ? secrets : secretsOfTenant(scheme, tenantSecrets, createDelivery(request));

const routeSource = ({ scheme, secrets, tenantSecrets, toleranceMs }: ListenSource) => {
  const asksForToken = scheme.handshakes?.some(({ verifyToken }) => verifyToken !== undefined) ?? false;
  return {
    scheme,
    ...(tenantSecrets === undefined ? { secrets } : { tenantSecrets }),
    allowShortSecrets: true,
    ...(asksForToken ? { verifyToken: secrets } : {}),
    ...(toleranceMs === undefined ? {} : { toleranceMs }),
  };
};

/** What to do with the request by which Notion tells its secret. It is the one secret that a terminal shows: nobody knows it yet. */
function verificationTokenAdvice(body: Uint8Array): Explanation | undefined {
  const token = jsonText(parseJson(Buffer.from(body).toString("utf8")), "verification_token");
  if (token === undefined) return undefined;
  return {
    reason: `this is no event: the provider tells its verification token, which is ${token}`,
    advice:
      "Enter it at the provider to verify the subscription, and give it to the source as its secret. It signs all events from now on.",
  };
}

/** A longer text is cut: it is for people to read. */
const mostShown = 2_000;
const mostEvents = 20;

/** The report of one request as lines for people. */
function reportText(report: Report, at: Date): string {
  const { method, path, status, fields, refusal, reason, advice, signed } = report;
  const why = refusal ?? fields.reason;
  return [
    `${at.toISOString().slice(11, 19)} ${method} ${path}  ${status} ${fields.outcome ?? ""}${why ? `: ${why}` : ""}`,
    ...(fields.messageId === undefined ? batchLines(report) : [named(fields)]),
    ...(reason === undefined ? [] : [`  why: ${reason}.`]),
    ...(advice === undefined ? [] : [`  do: ${advice}`]),
    ...signed.map((text) => `  signed text: ${shown(text)}`),
  ].join("\n");
}

/** Of a batch: how many events had which outcome, and the new ones. */
function batchLines({ fields, events }: Report): readonly string[] {
  const counts = Object.entries(fields).filter(([, count]) => typeof count === "number");
  const outcomes = counts.filter(([name]) => name !== "status").map(([name, count]) => `${count} ${name}`);
  if (outcomes.length === 0) return [];
  const more = events.length - mostEvents;
  return [
    `  events: ${outcomes.join(", ")}`,
    ...events.slice(0, mostEvents).map(named),
    ...(more > 0 ? [`  and ${more} more`] : []),
  ];
}

const named = ({ messageId, topic, tenant }: Partial<Record<keyof ReceivedWebhook, unknown>>): string =>
  `  ${[`id ${messageId}`, topic && `topic ${topic}`, tenant && `tenant ${tenant}`].filter(Boolean).join(", ")}`;

/** As a JSON string, so that a line break or a space at its end can be seen. */
function shown(text: string): string {
  const cut = text.length > mostShown ? `${text.slice(0, mostShown)}…` : text;
  return JSON.stringify(cut) + (cut === text ? "" : ` (${text.length} characters)`);
}
