import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { foreignRequest } from "../adapters/local/local-run.js";
import { omitUndefined } from "../base/defined.js";
import { type LogFields, safeReason } from "../base/logger.js";
import { requirePackage } from "../base/require-package.js";
import { openDatabase } from "../config/database-url.js";
import { openBodies, readBody } from "../http/body.js";
import { closeServer, listening as listenAt, respondTo } from "../http/node.js";
import { createInbox } from "../inbox/inbox.js";
import { migrate } from "../sql/migrate.js";
import { presetNames } from "../webhooks/preset-names.js";
import { createWebhookRoute } from "../webhooks/route.js";
import { type ReceivedWebhook, type WebhookInbox, webhookDefaults } from "../webhooks/route-options.js";
import { JsonText } from "../webhooks/schemes/delivery.js";
import type { FetchText } from "../webhooks/schemes/provider-keys.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import type { WebhookSource } from "../webhooks/sources.js";
import { type Command, type CommandInput, exitCodes, flag, option, type Terminal } from "./command.js";
import {
  type DevelopmentKeys,
  developmentDocuments,
  developmentSecretOf,
  isUnset,
  newDevelopmentKeys,
  shareDevelopmentKeys,
} from "./development-keys.js";
import {
  type Attempt,
  type Explanation,
  explainRefusal,
  explanationLines,
  signedTexts,
} from "./explain-refusal.js";
import {
  absoluteUrl,
  findSource,
  givenSecret,
  type KnownSource,
  knownSources,
  resolvedSecrets,
  sourceOptions,
  tenantSecretsFor,
} from "./sources.js";
import { count, print } from "./terminal.js";

const host = "127.0.0.1";

export const listenCommand: Command = {
  name: "listen",
  summary: "receive webhooks here, and show of each whether it is genuine, and why not",
  usage: "listen [SOURCE|PROVIDER …] [--app FILE] [--secret SECRET] [--port N] [options]",
  positionals: 100,
  options: {
    ...sourceOptions,
    url: option("the public address of a tunnel to this machine, for providers that sign the URL"),
    port: option("the port, instead of PORT; 7071 by default, 0 for any free port"),
    json: flag("print JSON: one line for the address, and one for each request"),
  },
  examples: [
    "oncebox listen",
    "oncebox listen stripe --secret-env STRIPE_SECRET --url https://example.ngrok.app",
    "oncebox listen --app app.js",
  ],
  async run(input) {
    const { values, terminal } = input;
    const { sources, keys, port } = await listenSources(input);
    const publicUrl = absoluteUrl(values)?.replace(/\/+$/, "");
    const db = await openDatabase("sqlite::memory:"); // to find duplicates; nothing is handled, and nothing is kept
    await migrate(db, { outbox: false });
    const listening = { sources, inbox: createInbox(db), fetchText: developmentDocuments(keys), publicUrl };
    const bodies = openBodies({ maxBytes: webhookDefaults.maxUnverifiedBytes });
    const limits = {
      maxBytes: webhookDefaults.maxBodyBytes,
      withinMs: webhookDefaults.bodyMs,
      among: bodies,
    };
    const route = async (request: Request): Promise<Response> => {
      const body = await readBody(request, limits);
      if (typeof body === "string") return new Response(null, { status: 413 });
      const { response, report } = await receiveAndReport(request, body, listening);
      print(input, report, reportText(report, new Date()));
      return response;
    };
    const failed = (error: unknown): void => terminal.err(`oncebox listen: ${safeReason(error)}`);
    const server = createServer((incoming, outgoing) => {
      if (foreignRequest(incoming, host) !== undefined) outgoing.writeHead(403).end();
      else void respondTo(incoming, outgoing, route, failed);
    });
    await listenAt(server, { port: count(values, "port") ?? port, host });
    const { port: bound } = server.address() as AddressInfo;
    const unshare = await shareDevelopmentKeys(bound, keys);
    try {
      const names = [...sources.keys()];
      const url = `http://${host}:${bound}`;
      print(input, { url, sources: names }, introduction(url, names, terminal));
      if (!terminal.signal.aborted) await once(terminal.signal, "abort");
    } finally {
      await unshare();
      await closeServer(server, 1_000);
      await db.close();
    }
    return exitCodes.ok;
  },
};

function introduction(url: string, names: readonly string[], { self = "npx oncebox" }: Terminal): string {
  const shown = names.length > 5 ? `${names.length} providers` : names.join(", ");
  const [first = "stripe"] = names;
  return `oncebox listens at ${url}/webhooks/… for ${shown}. Nothing is handled. Ctrl-C stops it.
  a webhook  ${self} sign ${first} --url ${url}/webhooks/${encodeURIComponent(first)} --send`;
}

/** A source whose secrets are at hand. */
interface ListenSource extends KnownSource {
  /** Those of the tenants are found for each request. */
  readonly secrets: readonly string[];
}

interface ListenSources {
  readonly sources: ReadonlyMap<string, ListenSource>;
  readonly keys: DevelopmentKeys;
  readonly port: number;
}

/** The sources and providers that are named, or all sources of the app, or else all providers. */
async function listenSources(input: CommandInput): Promise<ListenSources> {
  const { sources, environment } = await knownSources(input);
  const all = Object.keys(sources).length > 0 ? Object.keys(sources) : presetNames;
  const names = input.positionals.length > 0 ? new Set(input.positionals) : all;
  const known = await Promise.all([...names].map((name) => findSource(sources, name, "listen")));
  const found = names === presetNames ? known.filter(({ scheme }) => canVerify(scheme)) : known;
  if (found.length < known.length) {
    const others = known.filter((one) => !found.includes(one)).map(({ name }) => name);
    input.terminal.err(`Without the package jose these are left out: ${others.join(", ")}.`);
  }
  const keys = await newDevelopmentKeys(found.map(({ scheme }) => scheme));
  const given = givenSecret(input.values, input.terminal.env);
  const withSecrets = found.map(async (source): Promise<readonly [string, ListenSource]> => {
    const { name, scheme, own } = source;
    const isMade = own === undefined || isUnset(own.secrets, environment.env);
    const secrets = isMade
      ? [given ?? developmentSecretOf(scheme, keys)]
      : await resolvedSecrets(own.secrets, environment.env);
    return [name, { ...source, secrets }];
  });
  return { sources: new Map(await Promise.all(withSecrets)), keys, port: environment.port };
}

function canVerify({ verify }: WebhookScheme): boolean {
  try {
    if (verify.kind === "jwt") requirePackage("jose", "A scheme with JSON web tokens");
    return true;
  } catch {
    return false;
  }
}

interface Listening {
  /** The address of a tunnel, without the path. */
  readonly publicUrl: string | undefined;
  readonly sources: ReadonlyMap<string, ListenSource>;
  readonly inbox: WebhookInbox;
  readonly fetchText: FetchText;
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

/** Lets the route receive a request, and explains its response. */
async function receiveAndReport(
  request: Request,
  body: Uint8Array,
  { sources, inbox, fetchText, publicUrl }: Listening,
): Promise<{ readonly response: Response; readonly report: Report }> {
  const { method, headers } = request;
  const hasBody = method !== "GET" && method !== "HEAD";
  let fields: LogFields = {};
  const events: ReceivedWebhook[] = [];
  const keep = (_message: string, given?: LogFields): void => {
    fields = given ?? {};
  };
  const route = createWebhookRoute({
    ...omitUndefined({ publicUrl }),
    inbox,
    fetchText,
    logger: { debug() {}, info: keep, warn: keep, error: keep },
    afterEnqueue: (webhook) => events.push(webhook),
    sources: Object.fromEntries([...sources].map(([name, source]) => [name, routeSource(source)])),
  });
  const response = await route(new Request(request.url, { method, headers, ...(hasBody ? { body } : {}) }));
  const { pathname, search } = new URL(request.url);
  const seen = { method, path: pathname + search, status: response.status, fields, events, signed: [] };
  const source = sources.get(String(fields.source));
  if (source === undefined) return { response, report: seen };
  const token = fields.reason === "signature missing" ? verificationTokenIn(body) : undefined;
  if (token !== undefined) {
    const report = { ...seen, status: 200, fields: {}, ...verificationTokenAdvice(token) };
    return { response: new Response(null), report };
  }
  const url = publicUrl === undefined ? request.url : publicUrl + pathname + search;
  const captured = { method, url, headers, body };
  const secrets = (await tenantSecretsFor(source, captured)) ?? source.secrets;
  const { scheme, own } = source;
  const attempt: Attempt = {
    request: captured,
    scheme,
    secrets,
    toleranceMs: own?.toleranceMs,
    at: new Date(),
    fetchText,
  };
  // a tenant without secrets is unknown, which the route has said
  const isToExplain = fields.outcome === "unauthorized" && secrets.length > 0;
  const explanation = isToExplain ? await explainRefusal(attempt) : {};
  return { response, report: { ...seen, ...explanation, signed: signedTexts(attempt) } };
}

function routeSource({ scheme, secrets, own }: ListenSource): WebhookSource {
  const { tenantSecrets, toleranceMs, sharedTopics, allowUnsignedPartitionKey } = own ?? {};
  const asksForToken = scheme.handshakes?.some(({ verifyToken }) => verifyToken !== undefined) ?? false;
  return {
    scheme,
    allowShortSecrets: true,
    ...(tenantSecrets === undefined ? { secrets } : { tenantSecrets }),
    // a handshake's token is that of the source: nothing else is at hand
    ...omitUndefined({ verifyToken: asksForToken ? secrets : undefined, toleranceMs }),
    ...omitUndefined({ sharedTopics, allowUnsignedPartitionKey }),
  };
}

/** In the request by which Notion sends its secret. */
const verificationTokenIn = (body: Uint8Array): string | undefined =>
  JsonText.read(body)?.value("verification_token");

/** It is the one secret that a terminal shows: nobody knows it yet. */
const verificationTokenAdvice = (token: string): Explanation => ({
  reason: `this is no event: the provider sends its verification token, which is ${token}`,
  advice:
    "Enter it at the provider to verify the subscription, and give it to the source as its secret. It signs all events from now on.",
});

/** A longer text is cut: it is for people to read. */
const maxShown = 2_000;
const maxEvents = 20;

/** The report of one request as lines for people. */
function reportText(report: Report, at: Date): string {
  const { method, path, status, fields, refusal, signed } = report;
  const why = refusal ?? fields.reason;
  return [
    `${at.toISOString().slice(11, 19)} ${method} ${path}  ${status} ${fields.outcome ?? ""}${why ? `: ${why}` : ""}`,
    ...(fields.messageId === undefined ? batchLines(report) : [named(fields)]),
    ...explanationLines(report).map((line) => `  ${line}`),
    ...signed.map((text) => `  signed text: ${shown(text)}`),
  ].join("\n");
}

/** Of a batch: how many events had which outcome, and the new ones. */
function batchLines({ fields, events }: Report): readonly string[] {
  const counts = Object.entries(fields).filter(([, count]) => typeof count === "number");
  const outcomes = counts.filter(([name]) => name !== "status").map(([name, count]) => `${count} ${name}`);
  if (outcomes.length === 0) return [];
  const more = events.length - maxEvents;
  return [
    `  events: ${outcomes.join(", ")}`,
    ...events.slice(0, maxEvents).map(named),
    ...(more > 0 ? [`  and ${more} more`] : []),
  ];
}

const named = ({ messageId, topic, tenant }: Partial<Record<keyof ReceivedWebhook, unknown>>): string =>
  `  ${[`id ${messageId}`, topic && `topic ${topic}`, tenant && `tenant ${tenant}`].filter(Boolean).join(", ")}`;

/** As a JSON string, so that a line break or a space at its end can be seen. */
function shown(text: string): string {
  const cut = text.length > maxShown ? `${text.slice(0, maxShown)}…` : text;
  return JSON.stringify(cut) + (cut === text ? "" : ` (${text.length} characters)`);
}
