import {
  createPublicKey,
  generateKeyPair,
  type KeyPairKeyObjectResult,
  randomBytes,
  sign,
} from "node:crypto";
import { lstat, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { isIPv4 } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { AppDefinition } from "../app/definition.js";
import { isReference } from "../app/sources.js";
import { exampleSender } from "../webhooks/schemes/certificate-address.js";
import { type FetchText, fetchText } from "../webhooks/schemes/provider-keys.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import { isDigest, toSigningKey } from "../webhooks/schemes/signing-key.js";
import type { SignOptions } from "../webhooks/signing/sign-webhook.js";
import type { KnownSource } from "./sources.js";

/** The kinds of key pairs that providers sign with. */
type KeyType = "ed25519" | "ec" | "rsa";

/** The secrets of one local run. They are made anew for each, and only this user can read them. */
export interface DevelopmentKeys {
  /** A shared secret, or a token. It has the form of a secret of Stripe and of Standard Webhooks. */
  readonly secret: string;
  /** As PEM. Only those that the run's sources need. */
  readonly privateKeys: Readonly<Partial<Record<KeyType, string>>>;
}

export const newDevelopmentSecret = (): string => `whsec_${randomBytes(24).toString("base64")}`;

/** What stands for the webhook id of PayPal, the topic of SNS, the audience of Pub/Sub. */
const developmentSender = ({ verify }: WebhookScheme): string =>
  verify.kind === "signature" && verify.certificate !== undefined
    ? exampleSender(verify.certificate)
    : "oncebox-development";

/** The kind of key pair that the provider signs with. Undefined where it shares a secret. */
export function keyTypeOf({ verify }: WebhookScheme): KeyType | undefined {
  if (verify.kind === "token") return undefined;
  if (verify.kind === "jwt") return verify.algorithms[0]?.startsWith("ES") ? "ec" : "rsa";
  if (verify.certificate !== undefined) return "rsa";
  const { algorithm = "sha256" } = verify;
  if (verify.keys !== undefined || isDigest(algorithm)) return undefined;
  return algorithm === "ed25519" ? "ed25519" : algorithm === "ecdsa-sha256" ? "ec" : "rsa";
}

/** Whether the source's secrets are names, and the key is fetched from the provider. */
export const isNamed = ({ verify }: WebhookScheme): boolean =>
  verify.kind === "jwt"
    ? verify.jwksUrl !== undefined
    : verify.kind === "signature" && verify.certificate !== undefined;

export async function newDevelopmentKeys(
  schemes: readonly WebhookScheme[],
  secret = newDevelopmentSecret(),
): Promise<DevelopmentKeys> {
  const types = [...new Set(schemes.flatMap((scheme) => keyTypeOf(scheme) ?? []))];
  const made = types.map(async (type) => {
    const { privateKey } = await generate(type, { modulusLength: 2_048, namedCurve: "P-256" });
    return [type, privateKey.export({ type: "pkcs8", format: "pem" })];
  });
  return { secret, privateKeys: Object.fromEntries(await Promise.all(made)) };
}

const generate = promisify(generateKeyPair) as (
  type: string,
  options: object,
) => Promise<KeyPairKeyObjectResult>;

/** What a source with this scheme has as its secret, to accept what `signingWith` signs. */
export function developmentSecretOf(scheme: WebhookScheme, keys: DevelopmentKeys): string {
  const type = keyTypeOf(scheme);
  if (type === undefined) return sharedSecret(scheme, keys.secret);
  if (isNamed(scheme)) return developmentSender(scheme);
  const publicKey = createPublicKey(keys.privateKeys[type]!);
  return scheme.verify.kind === "jwt"
    ? JSON.stringify(publicKey.export({ format: "jwk" }))
    : (publicKey.export({ format: "pem", type: "spki" }) as string);
}

/** The options with which `signWebhook` signs for such a source. */
export function signingWith(
  scheme: WebhookScheme,
  keys: DevelopmentKeys,
): Pick<SignOptions, "secrets" | "privateKey"> {
  const type = keyTypeOf(scheme);
  if (type === undefined) return { secrets: sharedSecret(scheme, keys.secret) };
  const privateKey = keys.privateKeys[type]!;
  return isNamed(scheme) ? { secrets: developmentSender(scheme), privateKey } : { secrets: privateKey };
}

/** The same bytes in the form that the scheme takes: as they are, in base64 or in hexadecimal digits. */
function sharedSecret({ verify }: WebhookScheme, secret: string): string {
  if (verify.kind !== "signature") return secret;
  const base64 = secret.replace(/^whsec_/, "");
  const forms = [secret, base64, Buffer.from(base64, "base64").toString("hex")];
  return forms.find((form) => typeof toSigningKey(verify, form) !== "string") ?? secret;
}

/** Only a run that no other machine can reach gets development secrets. */
export const isThisMachine = (host: string): boolean =>
  host === "localhost" || host === "::1" || host === "[::1]" || (isIPv4(host) && host.startsWith("127."));

/** The variables that secrets refer to and that are not set. */
export const unsetVariables = (secrets: unknown, env: NodeJS.ProcessEnv): readonly string[] =>
  [secrets]
    .flat()
    .flatMap((one) => (isReference(one) && one.from === "env" && !env[one.name] ? [one.name] : []));

export const isUnset = (secrets: unknown, env: NodeJS.ProcessEnv): boolean =>
  unsetVariables(secrets, env).length > 0;

/** Returns the secret for each variable that a source or the service refers to and that is not set. */
export function developmentSecrets(
  { service }: AppDefinition,
  env: NodeJS.ProcessEnv,
  sources: readonly KnownSource[],
  keys: DevelopmentKeys,
): Readonly<Record<string, string>> {
  const given = (secrets: unknown, secret: string) =>
    unsetVariables(secrets, env).map((name) => [name, secret] as const);
  return Object.fromEntries([
    ...sources.flatMap(({ own }) => given(own?.verifyToken, keys.secret)),
    ...sources.flatMap(({ own, scheme }) => given(own?.secrets, developmentSecretOf(scheme, keys))),
    ...given(service?.tokens, keys.secret),
  ]);
}

const folder = (): string => join(tmpdir(), `oncebox-${userInfo().uid}`);
const fileOf = (port: number): string => join(folder(), `dev-${port}`);

/** Writes the keys of the run at this port where `oncebox sign` finds them, and only this user. Returns what removes them. */
export async function shareDevelopmentKeys(
  port: number,
  keys: DevelopmentKeys,
): Promise<() => Promise<void>> {
  await mkdir(folder(), { recursive: true, mode: 0o700 });
  if (!(await isOwnFolder())) return async () => {}; // somebody else has made it, and could read the file
  const file = fileOf(port);
  await rm(file, { force: true });
  await writeFile(file, JSON.stringify(keys), { mode: 0o600, flag: "wx" });
  return () => rm(file, { force: true });
}

/** The keys of the local run at this port. Undefined where none runs. */
export async function sharedDevelopmentKeys(port: number): Promise<DevelopmentKeys | undefined> {
  if (!(await isOwnFolder())) return undefined;
  try {
    return JSON.parse(await readFile(fileOf(port), "utf8")) as DevelopmentKeys;
  } catch {
    return undefined;
  }
}

async function isOwnFolder(): Promise<boolean> {
  const found = await lstat(folder()).catch(() => undefined);
  if (found === undefined || !found.isDirectory()) return false;
  // Windows has neither user ids nor modes; its folder of temporary files is the user's own.
  return process.platform === "win32" || (found.uid === userInfo().uid && (found.mode & 0o077) === 0);
}

const dayMs = 86_400_000;

/**
 * Stands for the providers that publish a certificate or keys, for requests that `oncebox sign` has signed. All other
 * documents are fetched: a local run may get genuine webhooks through a tunnel.
 */
export const developmentDocuments =
  (keys: DevelopmentKeys, clock: () => Date = () => new Date()): FetchText =>
  async (url, signal) => {
    const { rsa } = keys.privateKeys;
    const { pathname } = new URL(url);
    if (rsa !== undefined && /[/-]oncebox(\.pem)?$/.test(pathname)) {
      const now = clock().getTime();
      return selfSignedCertificate(rsa, "oncebox development", new Date(now - dayMs), new Date(now + dayMs));
    }
    if (rsa !== undefined && /\/(certs|keys|jwks?(\.json)?)$/.test(pathname)) return publishedKeys(keys);
    return fetchText(url, signal);
  };

/** The keys of the run as a document that a provider would publish. */
const publishedKeys = ({ privateKeys }: DevelopmentKeys): string =>
  JSON.stringify({
    keys: Object.values(privateKeys).map((key) => createPublicKey(key).export({ format: "jwk" })),
  });

/**
 * A certificate for the RSA key of a local run. It stands for the one that a provider publishes (PayPal, SNS), which a test
 * request cannot be signed with. Node can read certificates and not make them.
 */
export function selfSignedCertificate(
  privateKey: string,
  name: string,
  validFrom: Date,
  validTo: Date,
): string {
  const publicKey = createPublicKey(privateKey).export({ type: "spki", format: "der" });
  const serial = der(0x02, Buffer.from([1]));
  const validity = sequence(time(validFrom), time(validTo));
  const content = sequence(serial, algorithm, named(name), validity, named(name), publicKey);
  const signature = der(0x03, Buffer.from([0]), sign("sha256", content, privateKey));
  const text = sequence(content, algorithm, signature).toString("base64");
  const lines = text.match(/.{1,64}/g) ?? [];
  return ["-----BEGIN CERTIFICATE-----", ...lines, "-----END CERTIFICATE-----", ""].join("\n");
}

/** A part of a certificate: its tag, its length and its content (ITU-T X.690). */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const bytes = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...bytes]), content]);
}

const sequence = (...parts: readonly Uint8Array[]): Buffer => der(0x30, ...parts);

/** sha256WithRSAEncryption */
const algorithm = Buffer.from("300d06092a864886f70d01010b0500", "hex");
const commonName = Buffer.from("0603550403", "hex");

const named = (name: string): Buffer =>
  sequence(der(0x31, sequence(commonName, der(0x0c, Buffer.from(name)))));

const time = (at: Date): Buffer =>
  der(0x18, Buffer.from(`${at.toISOString().replaceAll(/[-:T]/g, "").slice(0, 14)}Z`));
