import { readFile } from "node:fs/promises";
import { createDelivery } from "../webhooks/schemes/delivery.js";
import { type Command, exitCodes, text, UsageError, type Values } from "./command.js";
import { type Attempt, type Explanation, explainRefusal } from "./explain-refusal.js";
import {
  findSourceOrScheme,
  givenSecret,
  type KnownSource,
  resolvedSecrets,
  secretsOfTenant,
} from "./sources.js";

export const verifyCommand: Command = {
  name: "verify",
  summary: "say why a captured webhook is refused",
  usage: "verify --source SOURCE|PROVIDER FILE [--secret SECRET] [options]",
  positionals: 1,
  options: {
    app: { type: "string" },
    source: { type: "string" },
    secret: { type: "string" },
    "secret-env": { type: "string" },
    url: { type: "string" },
    at: { type: "string" },
    json: { type: "boolean" },
  },
  help: {
    app: "the app whose sources can be named, besides those of ONCEBOX_WEBHOOKS",
    source: "a source, with its scheme and secrets, or a provider",
    secret: "the secret; required for a provider, optional for a source",
    "secret-env": "an environment variable with the secret, to keep it out of the shell's history",
    url: "the address that the provider called, if the file does not have it",
    at: "when the request arrived, as 2030-01-01T00:00:00Z; now by default",
    json: "print JSON",
  },
  examples: [
    "oncebox verify --source stripe --secret-env STRIPE_SECRET request.http",
    "oncebox verify --source acme --app app.js --at 2030-01-01T00:00:00Z request.http",
  ],
  async run(input) {
    const { values, positionals, terminal } = input;
    const [file] = positionals;
    if (file === undefined) throw new UsageError("verify needs a file with the captured request.");
    const name = text(values, "source");
    if (name === undefined) throw new UsageError("verify needs --source: a source, or a provider.");
    const found = await findSourceOrScheme(input, name, "verify");
    const { notes, ...request } = readHttpRequest(await contentOf(file), publicUrl(values));
    const given = givenSecret(values, terminal.env);
    const attempt: Attempt = {
      request,
      scheme: found.scheme,
      secrets: given === undefined ? await ownSecrets(found, request, terminal.env) : [given],
      toleranceMs: found.toleranceMs,
      at: arrivedAt(values),
    };
    if (attempt.secrets.length === 0) throw new UsageError("verify needs --secret or --secret-env.");
    const explanation = await explainRefusal(attempt, await otherSecrets(found, terminal.env));
    terminal.out(
      values.json
        ? JSON.stringify({ accepted: explanation.refusal === undefined, ...explanation, notes })
        : told(explanation, notes),
    );
    return explanation.refusal === undefined ? exitCodes.ok : exitCodes.failed;
  },
};

const ownSecrets = (
  { scheme, secrets, tenantSecrets }: KnownSource,
  request: Attempt["request"],
  env: NodeJS.ProcessEnv,
): Promise<readonly string[]> =>
  tenantSecrets === undefined
    ? resolvedSecrets(secrets, env)
    : secretsOfTenant(scheme, tenantSecrets, createDelivery(request));

async function contentOf(file: string): Promise<Uint8Array> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${(error as NodeJS.ErrnoException).code}.`);
  }
}

function publicUrl(values: Values): string | undefined {
  const url = text(values, "url");
  if (url !== undefined && !URL.canParse(url)) throw new UsageError("--url must be an absolute URL.");
  return url?.split("#", 1)[0]; // nobody sends the fragment, in which Twilio reads how often it shall try again
}

function arrivedAt(values: Values): Date {
  const given = text(values, "at");
  const at = given === undefined ? new Date() : new Date(given);
  if (Number.isNaN(at.getTime())) throw new UsageError("--at must be a time such as 2030-01-01T00:00:00Z.");
  return at;
}

/** Those of the other sources that can be read here. A store that does not respond is no reason to fail. */
async function otherSecrets({ others }: KnownSource, env: NodeJS.ProcessEnv) {
  const all = await Promise.all(
    others.map(async ({ name, secrets }) => {
      const found = await resolvedSecrets(secrets, env).catch(() => []);
      return found.map((secret) => ({ source: name, secret }));
    }),
  );
  return all.flat();
}

const told = ({ refusal, reason, advice }: Explanation, notes: readonly string[]): string =>
  [
    refusal === undefined ? "accepted: the request is genuine." : `refused: ${refusal}`,
    ...(reason === undefined ? [] : [`why: ${reason}.`]),
    ...(advice === undefined ? [] : [`do: ${advice}`]),
    ...notes.map((note) => `note: ${note}`),
  ].join("\n");

/** A request as it came over the wire. */
export interface CapturedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Headers;
  readonly body: Uint8Array;
  /** What is odd about the file and may be the reason for a refusal. */
  readonly notes: readonly string[];
}

const form =
  'The file must look like a request: a line such as "POST /webhooks/stripe HTTP/1.1", the headers, an empty line, and the body';

/** Reads a request in the form of HTTP/1.1. `url` is the address that the provider called, where the file does not have it. */
function readHttpRequest(file: Uint8Array, url?: string): CapturedRequest {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength);
  const [headEnd, bodyStart] = endOfHead(bytes);
  const [first = "", ...lines] = bytes.subarray(0, headEnd).toString("latin1").split(/\r?\n/);
  const [, method, target] = /^([A-Z]+) (\S+)(?: HTTP\/[\d.]+)?$/.exec(first) ?? [];
  if (method === undefined || target === undefined)
    throw new UsageError(`${form}. Its first line is not one.`);
  const headers = headersOf(lines);
  return {
    method,
    url: url ?? calledUrl(target, headers),
    headers,
    ...bodyOf(bytes.subarray(bodyStart), headers),
  };
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

function bodyOf(rest: Buffer, headers: Headers): Pick<CapturedRequest, "body" | "notes"> {
  if (headers.get("transfer-encoding")?.toLowerCase() === "chunked") {
    const body = withoutChunks(rest);
    return body === undefined ? { body: rest, notes: [] } : { body, notes: [] };
  }
  const length = Number(headers.get("content-length") ?? Number.NaN);
  if (rest.length < length) {
    const note = `The body has ${rest.length} bytes and Content-Length says ${length}: a part of it is missing.`;
    return { body: rest, notes: [note] };
  }
  return { body: rest.length > length ? rest.subarray(0, length) : rest, notes: [] };
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
