/**
 * The part of Protocol Buffers that `proto/rf-receiver.proto` needs: texts, flags and nested messages. Written by hand, so
 * that gRPC needs one optional package and no file is read at run time.
 */

const nothing = Buffer.alloc(0);
const isVarint = 0;
const isDelimited = 2;

/** Values that are empty are not written, as proto3 has it. */
const textField = (number: number, value: string): Buffer =>
  value === "" ? nothing : delimitedField(number, Buffer.from(value));

const flagField = (number: number, value: boolean): Buffer =>
  value ? Buffer.from([...varint((number << 3) | isVarint), 1]) : nothing;

const delimitedField = (number: number, bytes: Uint8Array): Buffer =>
  Buffer.concat([Buffer.from([...varint((number << 3) | isDelimited), ...varint(bytes.byteLength)]), bytes]);

function varint(value: number): readonly number[] {
  const bytes: number[] = [];
  let left = value;
  while (left > 127) {
    bytes.push((left % 128) + 128);
    left = Math.floor(left / 128);
  }
  return [...bytes, left];
}

interface Field {
  readonly number: number;
  /** The bytes of a text or of a nested message. Undefined for a number. */
  readonly bytes?: Uint8Array;
  /** A number. Only whether it is 0 is exact. */
  readonly value?: number;
}

/**
 * Far more than a message has: 6 texts, 67 headers and what a later version adds. A message of 16 MiB could hold eight
 * million empty ones, and reading those takes half a minute.
 */
const mostFields = 1_000;

/** Reads the fields in their order. Throws where the bytes are no message. */
function* readFields(bytes: Uint8Array): Generator<Field> {
  let at = 0;
  let count = 0;
  const take = (length: number): Uint8Array => {
    if (length > bytes.byteLength - at) throw new RangeError("The message ends within a field.");
    at += length;
    return bytes.subarray(at - length, at);
  };
  const readVarint = (): number => {
    let value = 0;
    for (let i = 0; i < 10; i++) {
      const byte = take(1)[0]!;
      value += (byte & 127) * 2 ** (7 * i);
      if (byte < 128) return value;
    }
    throw new RangeError("A number has more than 10 bytes.");
  };
  while (at < bytes.byteLength) {
    if (++count > mostFields) throw new RangeError(`A message has more than ${mostFields} fields.`);
    const tag = readVarint();
    const number = Math.floor(tag / 8);
    const kind = tag % 8;
    if (kind === isVarint) yield { number, value: readVarint() };
    else if (kind === isDelimited) yield { number, bytes: take(readVarint()) };
    else if (kind === 1 || kind === 5) take(kind === 1 ? 8 : 4);
    else throw new RangeError(`A field has the unknown kind ${kind}.`);
  }
}

/** Throws where the bytes are not UTF-8. */
const textOf = (bytes: Uint8Array): string => new TextDecoder("utf-8", utf8).decode(bytes);
const utf8 = { fatal: true, ignoreBOM: true } as const;

/** The fields of a signed message, as `proto/rf-receiver.proto` has them. */
interface SignedFields {
  readonly messageId: string;
  readonly correlationId: string | null;
  readonly sourceServiceId: string;
  readonly messageType: string;
  readonly endpoint: string;
  /** The payload's JSON text, exactly as it was signed. */
  readonly payload: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** What a receiver returns by gRPC. The payload is JSON text, or empty. */
export interface AcknowledgementFields {
  readonly acknowledged: boolean;
  readonly duplicateDetected: boolean;
  readonly payload: string;
  readonly error: string;
  readonly permanent: boolean;
}

export const encodeMessage = (message: SignedFields): Buffer =>
  Buffer.concat([
    textField(1, message.messageId),
    textField(2, message.correlationId ?? ""),
    textField(3, message.sourceServiceId),
    textField(4, message.messageType),
    textField(5, message.endpoint),
    textField(6, message.payload),
    ...Object.entries(message.headers).map(([name, value]) =>
      delimitedField(7, Buffer.concat([textField(1, name), textField(2, value)])),
    ),
  ]);

export function decodeMessage(bytes: Uint8Array): SignedFields {
  const texts = new Map<number, string>();
  const headers = new Map<string, string>();
  for (const { number, bytes: content } of readFields(bytes)) {
    if (content === undefined || number > 7) continue; // a field of a later version
    if (number < 7) {
      texts.set(number, textOf(content));
      continue;
    }
    const entry = decodeTexts(content);
    headers.set(entry.get(1) ?? "", entry.get(2) ?? "");
  }
  const text = (number: number): string => texts.get(number) ?? "";
  return {
    messageId: text(1),
    correlationId: text(2) === "" ? null : text(2),
    sourceServiceId: text(3),
    messageType: text(4),
    endpoint: text(5),
    payload: text(6),
    headers: Object.fromEntries(headers), // defines each name as its own property, "__proto__" included
  };
}

export const encodeAcknowledgement = (fields: AcknowledgementFields): Buffer =>
  Buffer.concat([
    flagField(1, fields.acknowledged),
    flagField(2, fields.duplicateDetected),
    textField(3, fields.payload),
    textField(4, fields.error),
    flagField(5, fields.permanent),
  ]);

export function decodeAcknowledgement(bytes: Uint8Array): AcknowledgementFields {
  const flags = new Map<number, boolean>();
  for (const { number, value } of readFields(bytes)) if (value !== undefined) flags.set(number, value !== 0);
  const texts = decodeTexts(bytes);
  return {
    acknowledged: flags.get(1) ?? false,
    duplicateDetected: flags.get(2) ?? false,
    payload: texts.get(3) ?? "",
    error: texts.get(4) ?? "",
    permanent: flags.get(5) ?? false,
  };
}

function decodeTexts(bytes: Uint8Array): ReadonlyMap<number, string> {
  const texts = new Map<number, string>();
  for (const { number, bytes: content } of readFields(bytes)) {
    if (content !== undefined) texts.set(number, textOf(content));
  }
  return texts;
}

/** The fields of a signed body. The body was made with JSON.stringify, so the payload's text is the same here and there. */
export function fieldsOfBody(body: string): SignedFields {
  const { payload, ...fields } = JSON.parse(body) as Omit<SignedFields, "payload"> & { payload: unknown };
  return { ...fields, payload: JSON.stringify(payload) };
}

/**
 * The body with these fields, and the payload's text as it is. Returns undefined where the payload is not JSON: inside
 * the body such a text could become other fields.
 */
export function bodyOfFields({ payload, headers, ...fields }: SignedFields): string | undefined {
  try {
    JSON.parse(payload);
  } catch {
    return undefined;
  }
  return `${JSON.stringify(fields).slice(0, -1)},"payload":${payload},"headers":${JSON.stringify(headers)}}`;
}
