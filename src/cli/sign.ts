import { readFile } from "node:fs/promises";
import { type SchemeName, schemeNames } from "../webhooks/schemes.js";
import { type SignedRequest, signWebhook } from "../webhooks/sign.js";
import { type Command, exitCodes, text, UsageError, type Values } from "./command.js";

export const signCommand: Command = {
  name: "sign",
  summary: "make a signed test request, as the provider would send it",
  usage: "sign SCHEME --secret SECRET [--body TEXT | --file FILE] [--send] [options]",
  positionals: 1,
  options: {
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
    secret: "the source's secret",
    "secret-env": "the environment variable that holds it, to keep it out of the shell's history",
    body: 'the body; {"id":"evt_test","type":"test"} by default',
    file: "a file with the body",
    url: "where it goes; http://127.0.0.1:7071/webhooks/SCHEME by default",
    id: "the message id, for schemes that have it in a header",
    topic: "the topic, for schemes that have it in a header",
    header: 'another header, "name: value"; may be repeated',
    send: "send it and print the answer, instead of printing a curl command",
    json: "print JSON",
  },
  examples: [
    `oncebox sign stripe --secret whsec_test --body '{"id":"evt_1","type":"payment.received"}' --send`,
    "oncebox sign github --secret-env GITHUB_SECRET --file event.json --id 1 --topic push",
  ],
  async run({ values, positionals, terminal }) {
    const scheme = schemeOf(positionals[0]);
    const request = signWebhook(scheme, {
      url: text(values, "url") ?? `http://127.0.0.1:7071/webhooks/${scheme}`,
      body: await bodyOf(values),
      secrets: secretOf(values, terminal.env),
      messageId: text(values, "id") ?? `test-${Date.now()}`,
      topic: text(values, "topic") ?? "test",
      headers: headersOf(values),
    });
    if (!values.send) {
      terminal.out(values.json ? JSON.stringify(printable(request)) : curl(request));
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

function schemeOf(name: string | undefined): SchemeName {
  if (name !== undefined && (schemeNames as readonly string[]).includes(name)) return name as SchemeName;
  throw new UsageError(`sign needs one of the schemes ${schemeNames.join(", ")}.`);
}

function secretOf(values: Values, env: NodeJS.ProcessEnv): string {
  const variable = text(values, "secret-env");
  const secret = variable === undefined ? text(values, "secret") : env[variable];
  if (secret === undefined || secret === "") {
    throw new UsageError(
      variable === undefined
        ? "sign needs --secret or --secret-env."
        : `The variable ${variable} is not set.`,
    );
  }
  return secret;
}

async function bodyOf(values: Values): Promise<string | Uint8Array> {
  const file = text(values, "file");
  if (file === undefined) return text(values, "body") ?? '{"id":"evt_test","type":"test"}';
  try {
    return await readFile(file);
  } catch (error) {
    throw new UsageError(`--file ${file} cannot be read: ${(error as NodeJS.ErrnoException).code}.`);
  }
}

function headersOf(values: Values): Record<string, string> {
  const lines = (values.header as readonly string[] | undefined) ?? [];
  return Object.fromEntries(
    lines.map((line) => {
      const [, name, value] = /^([^:\s]+):\s*(.*)$/.exec(line) ?? [];
      if (name === undefined) throw new UsageError(`--header must look like "name: value", not "${line}".`);
      return [name, value!];
    }),
  );
}

const bodyText = ({ body }: SignedRequest) =>
  typeof body === "string" ? body : Buffer.from(body).toString();

const printable = (request: SignedRequest) => ({ ...request, body: bodyText(request) });

/** In single quotes a shell changes nothing. */
const quoted = (value: string) => `'${value.replaceAll("'", "'\\''")}'`;

const curl = (request: SignedRequest): string =>
  [
    `curl -i -X POST ${quoted(request.url)}`,
    ...Object.entries(request.headers).map(([name, value]) => `  -H ${quoted(`${name}: ${value}`)}`),
    `  --data-binary ${quoted(bodyText(request))}`,
  ].join(" \\\n");

async function sent(request: SignedRequest): Promise<Response> {
  try {
    return await fetch(request.url, request as RequestInit);
  } catch {
    throw new Error(
      `${new URL(request.url).origin} does not answer. Is it running? Start it with: oncebox dev`,
    );
  }
}
