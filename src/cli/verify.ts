import { readFile } from "node:fs/promises";
import { createDelivery } from "../webhooks/schemes/delivery.js";
import { type Command, exitCodes, text, UsageError, type Values } from "./command.js";
import { findSourceOrScheme, type KnownSource } from "./find-source-or-scheme.js";
import { givenSecret, resolvedSecrets, secretsOfTenant } from "./source-secrets.js";
import type { Attempt } from "./verify/attempt.js";
import { type Explanation, explainRefusal } from "./verify/explain-refusal.js";
import { readHttpRequest } from "./verify/read-http-request.js";

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
