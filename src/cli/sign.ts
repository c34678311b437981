import { isUtf8 } from "node:buffer";
import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { omitUndefined } from "../base/defined.js";
import { type SignedRequest, type SignOptions, signWebhook } from "../webhooks/signing/sign-webhook.js";
import { type Command, type CommandInput, exitCodes, text, UsageError, type Values } from "./command.js";
import {
  type DevelopmentKeys,
  developmentSecretOf,
  isNamed,
  isThisMachine,
  keyTypeOf,
  newDevelopmentKeys,
  signingWith,
} from "./development-keys.js";
import { exampleEvent, hasIdInHeader } from "./example-event.js";
import { quoted } from "./output.js";
import { findSourceOrScheme, givenSecret, type KnownSource, resolvedSecrets } from "./sources.js";

export const signCommand: Command = {
  name: "sign",
  summary: "make a test request with a provider's signature",
  usage: "sign PROVIDER|SOURCE [--secret SECRET] [--body TEXT | --file FILE] [--send] [options]",
  positionals: 1,
  options: {
    app: { type: "string" },
    secret: { type: "string" },
    "secret-env": { type: "string" },
    body: { type: "string" },
    file: { type: "string" },
    url: { type: "string" },
    id: { type: "string" },
    topic: { type: "string" },
    header: { type: "string", multiple: true },
    send: { type: "boolean" },
    json: { type: "boolean" },
  },
  help: {
    app: "the app whose sources can be named, besides those of ONCEBOX_WEBHOOKS",
    secret: "the secret; a SOURCE has its own, and a local run one for each PROVIDER",
    "secret-env": "an environment variable with the secret, to keep it out of the shell's history",
    body: "the body; by default an event of the provider's form, with a new id, of a type that the app handles",
    file: "a file with the body",
    url: "the target; http://127.0.0.1:7071/webhooks/NAME by default, with PORT instead of 7071",
    id: "the message id; where the provider gives none, two examples with the same --id are one message",
    topic: "the topic, for schemes that read it from a header",
    header: 'another header, "name: value"; may be repeated',
    send: "send the request and print the answer, instead of printing a curl command",
    json: "print JSON",
  },
  examples: [
    `oncebox sign stripe --secret whsec_test --body '{"id":"evt_1","type":"invoice.paid"}' --send`,
    "oncebox sign github --secret-env GITHUB_SECRET --file event.json --id 1 --topic push",
    "oncebox sign acme --app app.js --send",
  ],
  async run(input) {
    const { values, positionals, terminal } = input;
    const source = await findSourceOrScheme(input, positionals[0]);
    const { name, scheme, port } = source;
    const url = text(values, "url") ?? `http://127.0.0.1:${port}/webhooks/${encodeURIComponent(name)}`;
    const target = URL.canParse(url) ? new URL(url) : undefined;
    const isLocal = target !== undefined && isThisMachine(target.hostname);
    const localPort = isLocal ? Number(target.port || 80) : undefined;
    const id = text(values, "id") ?? `test-${randomUUID()}`;
    const topic = text(values, "topic") ?? (await source.topic());
    const example = exampleEvent(scheme, id, topic);
    const body = await givenBody(values);
    if (body !== undefined && text(values, "id") !== undefined && !hasIdInHeader(scheme))
      throw new UsageError(`${name} has the id of an event in its body: write it there, and leave out --id.`);
    const request = signWebhook(scheme, {
      url,
      body: body ?? example.body,
      ...(await signingSecrets(input, source, localPort)),
      ...omitUndefined({ messageId: text(values, "id"), topic: text(values, "topic") }),
      headers: {
        ...(body === undefined ? example.headers : withoutType(example.headers)),
        ...headersOf(values),
      },
    });
    if (!values.send) {
      terminal.out(values.json ? JSON.stringify(printable(request)) : curl(request, text(values, "file")));
      return exitCodes.ok;
    }
    const response = await sent(request);
    const answer = await response.text();
    terminal.out(
      values.json
        ? JSON.stringify({ status: response.status, body: answer })
        : `${response.status} ${answer}`,
    );
    return response.ok ? exitCodes.ok : exitCodes.failed;
  },
};

async function givenBody(values: Values): Promise<string | Uint8Array | undefined> {
  const file = text(values, "file");
  if (file === undefined) return text(values, "body");
  if (values.body !== undefined) throw new UsageError("Give --body or --file, not both.");
  try {
    return await readFile(file);
  } catch (error) {
    throw new UsageError(`--file ${file} cannot be read: ${(error as NodeJS.ErrnoException).code}.`);
  }
}

/** Id and topic of an example are of use beside a body of the user's own, and its type is not. */
const withoutType = ({ "content-type": _, ...headers }: Readonly<Record<string, string>>) => headers;

function headersOf(values: Values): Record<string, string> {
  const lines = (values.header as readonly string[] | undefined) ?? [];
  return Object.fromEntries(
    lines.map((line) => {
      const [, name, value] = /^([^:\s]+):\s*(.*)$/.exec(line) ?? [];
      if (name === undefined) throw new UsageError('--header must look like "name: value".');
      return [name.toLowerCase(), value!];
    }),
  );
}

/** A body that is not UTF-8 is printed in base64, so that no byte is lost. */
function printable({ body, ...request }: SignedRequest): object {
  if (typeof body === "string") return { ...request, body };
  const bytes = Buffer.from(body);
  return isUtf8(bytes)
    ? { ...request, body: bytes.toString() }
    : { ...request, bodyBase64: bytes.toString("base64") };
}

const curl = ({ url, headers, body }: SignedRequest, file: string | undefined): string =>
  [
    `curl -i -X POST ${quoted(url)}`,
    ...Object.entries(headers).map(([name, value]) => `  -H ${quoted(`${name}: ${value}`)}`),
    file === undefined ? `  --data-raw ${quoted(String(body))}` : `  --data-binary ${quoted(`@${file}`)}`,
  ].join(" \\\n");

async function sent(request: SignedRequest): Promise<Response> {
  try {
    return await fetch(request.url, request as RequestInit);
  } catch {
    throw new Error(`${new URL(request.url).origin} does not respond. Start it with: oncebox dev`);
  }
}

type Signing = Pick<SignOptions, "secrets" | "privateKey">;

/** What `oncebox sign` signs with: the secret that is given, that of a local run, or that of the source. */
async function signingSecrets(
  { values, terminal }: CommandInput,
  source: KnownSource,
  localPort: number | undefined,
): Promise<Signing> {
  const given = givenSecret(values, terminal.env);
  const keys = localPort === undefined ? undefined : await source.localKeys(localPort);
  const local = keys && withKeyFor(source, keys);
  if (given !== undefined) return { ...(await privateKeyFor(source, local, terminal.err)), secrets: given };
  if (local !== undefined) return local;
  const [own] = await resolvedSecrets([source.secrets].flat()[0], terminal.env);
  if (own !== undefined) return { secrets: own };
  if (keyTypeOf(source.scheme) === undefined) throw new UsageError("sign needs --secret or --secret-env.");
  return newKeys(source, terminal.err);
}

/** The private key of a provider that publishes its own, beside a secret that names the sender. */
async function privateKeyFor(
  source: KnownSource,
  local: Signing | undefined,
  tell: (line: string) => void,
): Promise<Pick<Signing, "privateKey">> {
  const { privateKey } = local ?? (isNamed(source.scheme) ? await newKeys(source, tell) : {});
  return privateKey === undefined ? {} : { privateKey };
}

/** Undefined where the run has no such key, because none of its sources needs it. */
function withKeyFor({ scheme }: KnownSource, keys: DevelopmentKeys): Signing | undefined {
  const type = keyTypeOf(scheme);
  return type === undefined || keys.privateKeys[type] !== undefined ? signingWith(scheme, keys) : undefined;
}

/** The provider signs with a private key that nobody else has. A pair is made, and its public key must be the source's. */
async function newKeys({ name, scheme }: KnownSource, tell: (line: string) => void): Promise<Signing> {
  const keys = await newDevelopmentKeys([scheme]);
  const signing = signingWith(scheme, keys);
  tell(
    signing.privateKey === undefined
      ? `The provider signs with a private key. One was made for this request. Give the source this secret, its public key:\n${developmentSecretOf(scheme, keys)}`
      : `The provider publishes the key that it signs with, so only a local run accepts this request. Start one first: oncebox listen ${name}`,
  );
  return signing;
}
