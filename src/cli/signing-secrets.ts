import type { SignOptions } from "../webhooks/signing/sign-webhook.js";
import { type CommandInput, UsageError } from "./command.js";
import {
  type DevelopmentKeys,
  developmentSecretOf,
  isNamed,
  keyTypeOf,
  newDevelopmentKeys,
  signingWith,
} from "./development-keys.js";
import type { KnownSource } from "./find-source-or-scheme.js";
import { givenSecret, resolvedSecrets } from "./source-secrets.js";

type Signing = Pick<SignOptions, "secrets" | "privateKey">;

/** What `oncebox sign` signs with: the secret that is given, that of a local run, or that of the source. */
export async function signingSecrets(
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
