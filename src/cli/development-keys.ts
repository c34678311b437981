import { createPrivateKey, createPublicKey, generateKeyPair, randomBytes } from "node:crypto";
import { promisify } from "node:util";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import { isDigest, toSigningKey } from "../webhooks/schemes/signing-key.js";
import type { SignOptions } from "../webhooks/signing/sign-webhook.js";

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
export const developmentSender = "oncebox-development";

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
  const made = await Promise.all(types.map(async (type) => [type, await newPrivateKey(type)] as const));
  return { secret, privateKeys: Object.fromEntries(made) };
}

const generate = promisify(generateKeyPair) as (
  type: string,
  options: object,
) => Promise<{ readonly privateKey: string }>;

async function newPrivateKey(type: KeyType): Promise<string> {
  const encoding = {
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
    publicKeyEncoding: { type: "spki", format: "pem" },
  };
  const { privateKey } = await generate(type, { modulusLength: 2_048, namedCurve: "P-256", ...encoding });
  return privateKey;
}

/** What a source with this scheme has as its secret, to accept what `signingWith` signs. */
export function developmentSecretOf(scheme: WebhookScheme, keys: DevelopmentKeys): string {
  const type = keyTypeOf(scheme);
  if (type === undefined) return sharedSecret(scheme, keys.secret);
  if (isNamed(scheme)) return developmentSender;
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
  return isNamed(scheme) ? { secrets: developmentSender, privateKey } : { secrets: privateKey };
}

/** The same bytes in the form that the scheme takes: as they are, in base64 or in hexadecimal digits. */
function sharedSecret({ verify }: WebhookScheme, secret: string): string {
  if (verify.kind !== "signature") return secret;
  const base64 = secret.replace(/^whsec_/, "");
  const forms = [secret, base64, Buffer.from(base64, "base64").toString("hex")];
  return forms.find((form) => typeof toSigningKey(verify, form) !== "string") ?? secret;
}

/** The keys of the run as a document that a provider would publish. */
export const publishedKeys = ({ privateKeys }: DevelopmentKeys): string =>
  JSON.stringify({
    keys: Object.values(privateKeys).map((key) =>
      createPublicKey(createPrivateKey(key)).export({ format: "jwk" }),
    ),
  });
