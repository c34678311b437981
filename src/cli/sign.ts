import { isUtf8 } from "node:buffer";
import { randomUUID } from "node:crypto";
import { omitUndefined } from "../base/defined.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import { type SignedRequest, type SignOptions, signWebhook } from "../webhooks/signing/sign-webhook.js";
import {
  type Command,
  type CommandInput,
  exitCodes,
  flag,
  option,
  UsageError,
  type Values,
} from "./command.js";
import {
  developmentSecretOf,
  isNamed,
  isThisMachine,
  isUnset,
  keyTypeOf,
  newDevelopmentKeys,
  sharedDevelopmentKeys,
  signingWith,
} from "./development-keys.js";
import { exampleEvent, exampleType, hasIdInHeader } from "./example-event.js";
import {
  findSource,
  givenSecret,
  type KnownSource,
  knownSources,
  resolvedSecrets,
  sourceOptions,
} from "./sources.js";
import { jsonOption, print, quoted, readGivenFile, text } from "./terminal.js";

export const signCommand: Command = {
  name: "sign",
  summary: "make a test request with a provider's signature",
  usage: "sign PROVIDER|SOURCE [--secret SECRET] [--body TEXT | --file FILE] [--send] [options]",
  positionals: 1,
  options: {
    ...sourceOptions,
    body: option(
      "the body; by default an event of the provider's form, with a new id, of a type that the app handles",
    ),
    file: option("a file with the body"),
    url: option("the target; http://127.0.0.1:7071/webhooks/NAME by default, with PORT instead of 7071"),
    id: option(
      "the message id; where the provider gives none, two examples with the same --id are one message",
    ),
    topic: option("the event's type, for schemes that read it from a header"),
    header: { ...option('another header, "name: value"; may be repeated'), multiple: true },
    send: flag("send the request and print the response, instead of printing a curl command"),
    ...jsonOption,
  },
  examples: [
    `oncebox sign stripe --secret whsec_test --body '{"id":"evt_1","type":"invoice.paid"}' --send`,
    "oncebox sign github --secret-env GITHUB_SECRET --file event.json --id 1 --topic push",
    "oncebox sign acme --app app.js --send",
  ],
  async run(input) {
    const { values, positionals } = input;
    const { definition, environment, sources } = await knownSources(input);
    const source = await findSource(sources, positionals[0] ?? "", "sign");
    const { name, scheme } = source;
    const id = text(values, "id");
    const topic = text(values, "topic");
    const url =
      text(values, "url") ?? `http://127.0.0.1:${environment.port}/webhooks/${encodeURIComponent(name)}`;
    const exampleOf = topic ?? (await exampleType(source, definition, environment));
    const example = exampleEvent(scheme, id ?? `test-${randomUUID()}`, exampleOf);
    const body = await givenBody(values);
    if (body !== undefined && id !== undefined && !hasIdInHeader(scheme))
      throw new UsageError(`${name} has the id of an event in its body: write it there, and leave out --id.`);
    const request = signWebhook(scheme, {
      url,
      body: body ?? example.body,
      ...(await signingSecrets(input, source, url)),
      ...omitUndefined({ messageId: id, topic }),
      headers: {
        ...(body === undefined ? example.headers : withoutType(example.headers)),
        ...headersOf(values),
      },
    });
    if (!values.send) {
      print(input, printableRequest(request), curl(request, text(values, "file")));
      return exitCodes.ok;
    }
    const response = await sent(request);
    const answer = await response.text();
    print(input, { status: response.status, body: answer }, `${response.status} ${answer}`);
    return response.ok ? exitCodes.ok : exitCodes.failed;
  },
};

async function givenBody(values: Values): Promise<string | Uint8Array | undefined> {
  const file = text(values, "file");
  if (file === undefined) return text(values, "body");
  if (values.body !== undefined) throw new UsageError("Give --body or --file, not both.");
  return readGivenFile(file, `--file ${file}`);
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
function printableRequest({ body, ...request }: SignedRequest): object {
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
  { values, terminal: { env, err } }: CommandInput,
  { name, scheme, own }: KnownSource,
  url: string,
): Promise<Signing> {
  const given = givenSecret(values, env);
  const local = own !== undefined && !isUnset(own.secrets, env) ? undefined : await localSigning(scheme, url);
  if (given !== undefined) {
    // beside a secret that names the sender, the provider has a private key
    const { privateKey } = local ?? (isNamed(scheme) ? await newKeys(name, scheme, err) : {});
    return { secrets: given, ...omitUndefined({ privateKey }) };
  }
  if (local !== undefined) return local;
  const [secret] = await resolvedSecrets([own?.secrets].flat()[0], env);
  if (secret !== undefined) return { secrets: secret };
  if (keyTypeOf(scheme) === undefined) throw new UsageError("sign needs --secret or --secret-env.");
  return newKeys(name, scheme, err);
}

/** The secrets of the run at this address. Undefined where none runs, or where it has no such key because none of its sources needs it. */
async function localSigning(scheme: WebhookScheme, url: string): Promise<Signing | undefined> {
  const target = URL.canParse(url) ? new URL(url) : undefined;
  if (target === undefined || !isThisMachine(target.hostname)) return undefined;
  const keys = await sharedDevelopmentKeys(Number(target.port || 80));
  const type = keyTypeOf(scheme);
  const hasKey = type === undefined || keys?.privateKeys[type] !== undefined;
  return keys !== undefined && hasKey ? signingWith(scheme, keys) : undefined;
}

/** The provider signs with a private key that nobody else has. A pair is made, and its public key must be the source's. */
async function newKeys(
  name: string,
  scheme: WebhookScheme,
  report: (line: string) => void,
): Promise<Signing> {
  const keys = await newDevelopmentKeys([scheme]);
  const signing = signingWith(scheme, keys);
  report(
    signing.privateKey === undefined
      ? `The provider signs with a private key. One was made for this request. Give the source this secret, its public key:\n${developmentSecretOf(scheme, keys)}`
      : `The provider publishes the key that it signs with, so only a local run accepts this request. Start one first: oncebox listen ${name}`,
  );
  return signing;
}
