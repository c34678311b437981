import { type Command, exitCodes, option, UsageError, type Values } from "./command.js";
import {
  type Attempt,
  type CapturedRequest,
  type Explanation,
  explainRefusal,
  explanationLines,
} from "./explain-refusal.js";
import {
  absoluteUrl,
  findSource,
  givenSecret,
  type KnownSources,
  knownSources,
  resolvedSecrets,
  sourceOptions,
  tenantSecretsFor,
} from "./sources.js";
import { jsonOption, print, readGivenFile, text } from "./terminal.js";

export const verifyCommand: Command = {
  name: "verify",
  summary: "say why a captured webhook is refused",
  usage: "verify --source SOURCE|PROVIDER FILE [--secret SECRET] [options]",
  positionals: 1,
  options: {
    ...sourceOptions,
    source: option("a source, with its scheme and secrets, or a provider"),
    url: option("the address that the provider called, if the file does not have it"),
    at: option("when the request arrived, as 2030-01-01T00:00:00Z; now by default"),
    ...jsonOption,
  },
  examples: [
    "oncebox verify --source stripe --secret-env STRIPE_SECRET request.http",
    "oncebox verify --source acme --app app.js --at 2030-01-01T00:00:00Z request.http",
  ],
  async run(input) {
    const { values, positionals, terminal } = input;
    const { env } = terminal;
    const [file] = positionals;
    if (file === undefined) throw new UsageError("verify needs a file with the captured request.");
    const name = text(values, "source");
    if (name === undefined) throw new UsageError("verify needs --source: a source, or a provider.");
    const { sources } = await knownSources(input);
    const source = await findSource(sources, name, "verify");
    // nobody sends the fragment, in which Twilio reads how often it shall try again
    const called = absoluteUrl(values)?.split("#", 1)[0];
    const { request, notes } = readHttpRequest(await readGivenFile(file), called);
    const given = givenSecret(values, env);
    const ownSecrets = async () =>
      (await tenantSecretsFor(source, request)) ?? resolvedSecrets(source.own?.secrets, env);
    const attempt: Attempt = {
      request,
      scheme: source.scheme,
      secrets: given === undefined ? await ownSecrets() : [given],
      toleranceMs: source.own?.toleranceMs,
      at: arrivedAt(values),
    };
    if (attempt.secrets.length === 0) throw new UsageError("verify needs --secret or --secret-env.");
    const { [name]: _, ...others } = sources;
    const explanation = await explainRefusal(attempt, await otherSecrets(others, env));
    const accepted = explanation.refusal === undefined;
    print(input, { accepted, ...explanation, notes }, explanationText(explanation, notes));
    return accepted ? exitCodes.ok : exitCodes.failed;
  },
};

function arrivedAt(values: Values): Date {
  const given = text(values, "at");
  const at = given === undefined ? new Date() : new Date(given);
  if (Number.isNaN(at.getTime())) throw new UsageError("--at must be a time such as 2030-01-01T00:00:00Z.");
  return at;
}

/** Those that can be read here. A store that does not respond is no reason to fail. */
async function otherSecrets(sources: KnownSources["sources"], env: NodeJS.ProcessEnv) {
  const all = await Promise.all(
    Object.entries(sources).map(async ([source, { secrets }]) => {
      const found = await resolvedSecrets(secrets, env).catch(() => []);
      return found.map((secret) => ({ source, secret }));
    }),
  );
  return all.flat();
}

const explanationText = (explanation: Explanation, notes: readonly string[]): string =>
  [
    explanation.refusal === undefined
      ? "accepted: the request is genuine."
      : `refused: ${explanation.refusal}`,
    ...explanationLines(explanation),
    ...notes.map((note) => `note: ${note}`),
  ].join("\n");

const form =
  'The file must look like a request: a line such as "POST /webhooks/stripe HTTP/1.1", the headers, an empty line, and the body';

/** Reads a request in the form of HTTP/1.1. `url` is the address that the provider called, where the file does not have it. */
function readHttpRequest(bytes: Buffer, url?: string) {
  const [headEnd, bodyStart] = endOfHead(bytes);
  const [first = "", ...lines] = bytes.subarray(0, headEnd).toString("latin1").split(/\r?\n/);
  const [, method, target] = /^([A-Z]+) (\S+)(?: HTTP\/[\d.]+)?$/.exec(first) ?? [];
  if (method === undefined || target === undefined)
    throw new UsageError(`${form}. Its first line is not one.`);
  const headers = headersOf(lines);
  const { body, notes } = bodyOf(bytes.subarray(bodyStart), headers);
  const request: CapturedRequest = { method, url: url ?? calledUrl(target, headers), headers, body };
  return { request, notes };
}

/** The end of the last header, and the start of the body. Editors save a request with the line breaks of their system. */
function endOfHead(bytes: Buffer): readonly [number, number] {
  const ends = ["\r\n\r\n", "\n\n"].flatMap((mark) => {
    const at = bytes.indexOf(mark);
    return at < 0 ? [] : [[at, at + mark.length] as const];
  });
  return ends.sort(([a], [b]) => a - b)[0] ?? [bytes.length, bytes.length];
}

function headersOf(lines: readonly string[]): Headers {
  const headers = new Headers();
  for (const line of lines.filter((text) => text !== "")) {
    const [, name, value] = /^([^\s:]+):[ \t]*(.*?)[ \t]*$/.exec(line) ?? [];
    if (name === undefined) throw new UsageError(`${form}. A line of its head is not a header.`);
    headers.append(name, value!);
  }
  return headers;
}

function calledUrl(target: string, headers: Headers): string {
  if (/^https?:\/\//.test(target)) return target;
  const host = headers.get("host");
  if (host === null) throw new UsageError("The file has no Host header. Give --url.");
  const isLocal = /^(localhost|127\.|\[::1\])/.test(host);
  return `${headers.get("x-forwarded-proto") ?? (isLocal ? "http" : "https")}://${host}${target}`;
}

interface ReadBody {
  readonly body: Uint8Array;
  /** What is odd about the file and may be the reason for a refusal. */
  readonly notes: readonly string[];
}

function bodyOf(rest: Buffer, headers: Headers): ReadBody {
  if (headers.get("transfer-encoding")?.toLowerCase() === "chunked")
    return { body: withoutChunks(rest) ?? rest, notes: [] };
  const declared = Number.parseInt(headers.get("content-length") ?? "", 10);
  const length = Number.isNaN(declared) ? rest.length : declared;
  if (rest.length >= length) return { body: rest.subarray(0, length), notes: [] };
  const note = `The body has ${rest.length} bytes and Content-Length says ${length}: a part of it is missing.`;
  return { body: rest, notes: [note] };
}

/** Returns undefined when the body is not in chunks: most tools write it in one piece and keep the header. */
function withoutChunks(bytes: Buffer): Buffer | undefined {
  const chunks: Buffer[] = [];
  for (let at = 0; ; ) {
    const end = bytes.indexOf("\n", at);
    const size = /^([0-9a-f]+)\s*$/i.exec(bytes.subarray(at, end).toString("latin1"))?.[1];
    if (end < 0 || size === undefined) return undefined;
    const length = Number.parseInt(size, 16);
    if (length === 0) return Buffer.concat(chunks);
    chunks.push(bytes.subarray(end + 1, end + 1 + length));
    at = bytes.indexOf("\n", end + 1 + length) + 1;
    if (at === 0) return undefined;
  }
}
