import { brotliDecompressSync, gunzipSync, inflateSync } from "node:zlib";
import type { SignatureRule, WebhookScheme } from "../webhooks/schemes/scheme.js";

interface BodyChange {
  /** What would have to be done to the body that arrived: "without the line break at its end". */
  readonly what: string;
  readonly body: Uint8Array;
}

/** The bodies that the provider may have sent, if something on the way has changed them. */
export function bodyChanges(given: Uint8Array): readonly BodyChange[] {
  const bytes = Buffer.from(given);
  return Object.entries(changesOfBodies)
    .flatMap(([what, change]) => ifPossible(() => ({ what, body: Buffer.from(change(bytes)) })))
    .filter(({ body }) => !bytes.equals(body));
}

/** Nothing where it throws. */
function ifPossible<T>(make: () => T): readonly T[] {
  try {
    return [make()];
  } catch {
    return [];
  }
}

type ChangeBody = (bytes: Buffer) => string | Uint8Array;

/** Latin-1 keeps each byte as one character. */
const inText =
  (change: (text: string) => string): ChangeBody =>
  (bytes) =>
    Buffer.from(change(bytes.toString("latin1")), "latin1");

/** JSON as the usual libraries write it. A proxy or a framework that parses the body and writes it again chooses one. */
const inJson =
  (write: (value: unknown) => string): ChangeBody =>
  (bytes) =>
    write(JSON.parse(bytes.toString("utf8")));

const unpacked = { maxOutputLength: 16 * 1_048_576 };

const changesOfBodies: Readonly<Record<string, ChangeBody>> = {
  "without the line break at its end": inText((text) => text.replace(/\r?\n$/, "")),
  "with a line break at its end": inText((text) => `${text}\n`),
  "without the white space around it": inText((text) => text.trim()),
  "with the line breaks of Unix (LF)": inText((text) => text.replaceAll("\r\n", "\n")),
  "with the line breaks of Windows (CRLF)": inText((text) => text.replaceAll(/\r?\n/g, "\r\n")),
  "without the byte order mark": inText((text) => text.replace(/^\xef\xbb\xbf/, "")),
  "decoded from base64": (bytes) => Buffer.from(bytes.toString(), "base64"),
  "in UTF-8, which was read as Latin-1 and written again": (bytes) => Buffer.from(bytes.toString(), "latin1"),
  "before its form was decoded": (bytes) => decodeURIComponent(bytes.toString().replaceAll("+", " ")),
  "decompressed (gzip)": (bytes) => gunzipSync(bytes, unpacked),
  "decompressed (deflate)": (bytes) => inflateSync(bytes, unpacked),
  "decompressed (brotli)": (bytes) => brotliDecompressSync(bytes, unpacked),
  "as JSON without spaces": inJson((json) => JSON.stringify(json)),
  "as JSON with a space after each colon and comma": inJson(spacedJson),
  "as JSON that is indented by 2": inJson((json) => JSON.stringify(json, null, 2)),
  "as JSON that is indented by 4": inJson((json) => JSON.stringify(json, null, 4)),
  "as JSON with escaped slashes": inJson((json) => slashed(JSON.stringify(json))),
  "as JSON with escaped letters beyond ASCII": inJson((json) => escaped(JSON.stringify(json))),
  "as JSON with escaped letters beyond ASCII and escaped slashes": inJson((json) =>
    slashed(escaped(JSON.stringify(json))),
  ),
  "as JSON with spaces and escaped letters beyond ASCII": inJson((json) => escaped(spacedJson(json))),
};

const slashed = (text: string): string => text.replaceAll("/", "\\/");

const escaped = (text: string): string =>
  text.replaceAll(/[\u0080-\uffff]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);

function spacedJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(spacedJson).join(", ")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${spacedJson(one)}`);
  return `{${members.join(", ")}}`;
}

/** The addresses that the provider may have called, if a proxy has changed the address on the way. */
export function urlChanges(url: string, headers: Headers): readonly string[] {
  const { protocol, host, pathname, search } = new URL(url);
  const first = (name: string) => headers.get(name)?.split(",", 1)[0]?.trim() || undefined;
  const forwarded = headers.get("forwarded") ?? "";
  const inForwarded = (name: string) => new RegExp(`${name}="?([^;,"\\s]+)`, "i").exec(forwarded)?.[1];
  const protocols = [
    first("x-forwarded-proto"),
    inForwarded("proto"),
    protocol.slice(0, -1),
    "https",
    "http",
  ];
  const hosts = [
    first("x-forwarded-host"),
    first("x-original-host"),
    inForwarded("host"),
    headers.get("host") ?? undefined,
    host,
    host.replace(/:\d+$/, ""),
  ];
  const prefix = first("x-forwarded-prefix");
  const paths = [
    first("x-original-url"),
    first("x-rewrite-url"),
    first("x-forwarded-uri"),
    prefix && prefix.replace(/\/$/, "") + pathname + search,
    pathname + search,
    pathname,
    pathname.replace(/\/$/, "") + search,
    `${pathname.replace(/\/$/, "")}/${search}`,
    ...ifPossible(() => decodeURI(pathname + search)),
  ];
  const all = known(protocols).flatMap((scheme) =>
    known(hosts).flatMap((name) => known(paths).map((path) => `${scheme}://${name}${path}`)),
  );
  return [...new Set(all)].filter((one) => URL.canParse(one) && one !== url);
}

const known = (texts: readonly (string | undefined)[]): readonly string[] =>
  texts.filter((text) => text !== undefined);

/** The setting with which the route verifies against this address. Undefined where the path is another one. */
export function publicUrlFor(called: string, arrived: string): string | undefined {
  const path = /\/webhooks\/.*$/.exec(new URL(arrived).pathname)?.[0] ?? "";
  const { origin, pathname } = new URL(called);
  return path !== "" && pathname.endsWith(path) ? origin + pathname.slice(0, -path.length) : undefined;
}

interface SecretChange {
  /** What is wrong with the secret: "has white space around it". Never the secret itself. */
  readonly what: string;
  readonly secret: string;
}

const prefixes = ["whsec_", "v1,whsec_", "whsk_", "whpk_", "sha256="];

/** The secrets that were perhaps meant. */
export function secretChanges(secret: string): readonly SecretChange[] {
  const all: readonly SecretChange[] = [
    { what: "has white space around it", secret: secret.trim() },
    { what: "has quotes around it", secret: secret.trim().replace(/^(["'])(.*)\1$/s, "$2") },
    ...prefixes.map((prefix) => ({
      what: `starts with ${prefix}, which does not belong to it`,
      secret: secret.startsWith(prefix) ? secret.slice(prefix.length) : secret,
    })),
    { what: "lacks whsec_ at its start", secret: `whsec_${secret}` },
    { what: "lacks the = at its end", secret: `${secret}${"=".repeat((4 - (secret.length % 4)) % 4)}` },
    { what: "has letters in another case than the provider's", secret: secret.toLowerCase() },
    { what: "has letters in another case than the provider's", secret: secret.toUpperCase() },
    ...ifPossible(() => ({ what: "is percent-encoded", secret: decodeURIComponent(secret) })),
  ];
  return all.filter((one) => one.secret !== secret && one.secret !== "");
}

interface RuleChange {
  /** What the request has instead: "the signature is in base64". */
  readonly what: string;
  readonly scheme: WebhookScheme;
}

const digests = { sha1: "SHA-1", sha256: "SHA-256", sha512: "SHA-512" } as const;
const secretEncodings = { utf8: "as text", hex: "in hexadecimal digits", base64: "in base64" } as const;

/** Schemes that differ in one point, for a secret or a provider that is set up in another way. */
export function ruleChanges(scheme: WebhookScheme): readonly RuleChange[] {
  const { verify } = scheme;
  if (verify.kind !== "signature" || verify.keys !== undefined || verify.certificate !== undefined) return [];
  const { prefix, ...rest } = verify;
  const changed = (what: string, rule: Partial<SignatureRule>): RuleChange => ({
    what,
    scheme: { ...scheme, verify: { ...verify, ...rule } },
  });
  const changes = (["hex", "base64", "base64url"] as const).map((encoding) =>
    changed(`the signature is in ${encoding}`, { encoding }),
  );
  if (Object.hasOwn(digests, verify.algorithm ?? "sha256")) {
    for (const [encoding, how] of Object.entries(secretEncodings))
      changes.push(
        changed(`the secret is used ${how}`, { secretEncoding: encoding as keyof typeof secretEncodings }),
      );
    for (const [algorithm, name] of Object.entries(digests))
      changes.push(
        changed(`the signature is made with ${name}`, { algorithm: algorithm as keyof typeof digests }),
      );
  }
  if (prefix !== undefined)
    changes.push({ what: `the signature lacks ${prefix}`, scheme: { ...scheme, verify: rest } });
  return changes;
}
