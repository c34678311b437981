import { isUtf8 } from "node:buffer";
import { brotliDecompressSync, gunzipSync, inflateSync } from "node:zlib";

export interface BodyChange {
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
