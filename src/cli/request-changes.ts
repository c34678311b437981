import { isUtf8 } from "node:buffer";
import { brotliDecompressSync, gunzipSync, inflateSync } from "node:zlib";
import type { SignatureRule, WebhookScheme } from "../webhooks/schemes/scheme.js";

interface BodyChange {
  /** What would have to be done to the body that arrived: "without the line break at its end". */
  readonly what: string;
  readonly body: Uint8Array;
}

/** The bodies that the provider may have sent, if something on the way has changed them. */
export function bodyChanges(body: Uint8Array): readonly BodyChange[] {
  const bytes = Buffer.from(body);
  const all = [...lineBreaks(bytes), ...encodings(bytes), ...compressions(bytes), ...jsonForms(bytes)];
  return all.filter((one) => !bytes.equals(one.body));
}

const change = (what: string, body: string | Uint8Array): BodyChange => ({ what, body: Buffer.from(body) });

/** Latin-1 keeps each byte as one character. */
function lineBreaks(bytes: Buffer): readonly BodyChange[] {
  const text = bytes.toString("latin1");
  const of = (what: string, changed: string) => change(what, Buffer.from(changed, "latin1"));
  return [
    of("without the line break at its end", text.replace(/\r?\n$/, "")),
    of("with a line break at its end", `${text}\n`),
    of("without the white space around it", text.trim()),
    of("with the line breaks of Unix (LF)", text.replaceAll("\r\n", "\n")),
    of("with the line breaks of Windows (CRLF)", text.replaceAll(/\r?\n/g, "\r\n")),
    of("without the byte order mark", text.replace(/^\xef\xbb\xbf/, "")),
  ];
}

function encodings(bytes: Buffer): readonly BodyChange[] {
  const text = bytes.toString("utf8");
  const isBase64 = /^[A-Za-z0-9+/]{8,}={0,2}\s*$/.test(text);
  return [
    ...(isBase64 ? [change("decoded from base64", Buffer.from(text, "base64"))] : []),
    ...(isUtf8(bytes)
      ? [change("in UTF-8, which was read as Latin-1 and written again", Buffer.from(text, "latin1"))]
      : []),
    ...decodedForm(text),
  ];
}

function decodedForm(text: string): readonly BodyChange[] {
  if (!/^[^\s{}[\]"<>=&]+=/.test(text)) return [];
  try {
    return [change("before its form was decoded", decodeURIComponent(text.replaceAll("+", " ")))];
  } catch {
    return [];
  }
}

const most = { maxOutputLength: 16 * 1_048_576 };

function compressions(bytes: Buffer): readonly BodyChange[] {
  const ways = { gzip: gunzipSync, deflate: inflateSync, brotli: brotliDecompressSync };
  return Object.entries(ways).flatMap(([name, decompress]) => {
    try {
      return [change(`decompressed (${name})`, decompress(bytes, most))];
    } catch {
      return [];
    }
  });
}

/** JSON as the usual libraries write it. A proxy or a framework that parses the body and writes it again chooses one. */
function jsonForms(bytes: Buffer): readonly BodyChange[] {
  let json: unknown;
  try {
    json = JSON.parse(bytes.toString("utf8"));
  } catch {
    return [];
  }
  const compact = JSON.stringify(json);
  const spaced = spacedJson(json);
  return [
    change("as JSON without spaces", compact),
    change("as JSON with a space after each colon and comma", spaced),
    change("as JSON that is indented by 2", JSON.stringify(json, null, 2)),
    change("as JSON that is indented by 4", JSON.stringify(json, null, 4)),
    change("as JSON with escaped slashes", compact.replaceAll("/", "\\/")),
    change("as JSON with escaped letters beyond ASCII", escaped(compact)),
    change(
      "as JSON with escaped letters beyond ASCII and escaped slashes",
      escaped(compact).replaceAll("/", "\\/"),
    ),
    change("as JSON with spaces and escaped letters beyond ASCII", escaped(spaced)),
  ];
}

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
    decodedPath(pathname + search),
  ];
  const all = known(protocols).flatMap((scheme) =>
    known(hosts).flatMap((name) => known(paths).map((path) => `${scheme}://${name}${path}`)),
  );
  return [...new Set(all)].filter((one) => URL.canParse(one) && one !== url);
}

const known = (texts: readonly (string | undefined)[]): readonly string[] => [
  ...new Set(texts.filter((text) => text !== undefined)),
];

function decodedPath(path: string): string | undefined {
  try {
    return decodeURI(path);
  } catch {
    return undefined;
  }
}

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
    { what: "is percent-encoded", secret: percentDecoded(secret) },
  ];
  return all.filter((one) => one.secret !== secret && one.secret !== "");
}

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

interface RuleChange {
  /** What the request has instead: "the signature is in base64". */
  readonly what: string;
  readonly scheme: WebhookScheme;
}

const digests = { sha1: "SHA-1", sha256: "SHA-256", sha512: "SHA-512" } as const;
const otherEncodings = ["hex", "base64", "base64url"] as const;
const secretEncodings = { utf8: "as text", hex: "in hexadecimal digits", base64: "in base64" } as const;

/** Schemes that differ in one point, for a secret or a provider that is set up in another way. */
export function ruleChanges(scheme: WebhookScheme): readonly RuleChange[] {
  const { verify } = scheme;
  if (verify.kind !== "signature" || verify.keys !== undefined || verify.certificate !== undefined) return [];
  const with_ = (rule: Partial<SignatureRule>, what: string): RuleChange => ({
    what,
    scheme: { ...scheme, verify: { ...verify, ...rule } },
  });
  const isDigest = Object.hasOwn(digests, verify.algorithm ?? "sha256");
  return [
    ...otherEncodings.map((encoding) => with_({ encoding }, `the signature is in ${encoding}`)),
    ...(isDigest
      ? Object.entries(secretEncodings).map(([encoding, how]) =>
          with_({ secretEncoding: encoding as keyof typeof secretEncodings }, `the secret is used ${how}`),
        )
      : []),
    ...(isDigest
      ? Object.entries(digests).map(([algorithm, name]) =>
          with_({ algorithm: algorithm as keyof typeof digests }, `the signature is made with ${name}`),
        )
      : []),
    ...(verify.prefix === undefined
      ? []
      : [with_(withoutPrefix(verify), `the signature lacks ${verify.prefix}`)]),
  ];
}

function withoutPrefix({ prefix: _, ...rule }: SignatureRule): Partial<SignatureRule> {
  return { ...rule, prefix: undefined } as unknown as Partial<SignatureRule>;
}
