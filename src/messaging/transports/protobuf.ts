/**
 * The part of Protocol Buffers that `proto/rf-receiver.proto` needs: texts, flags and nested messages. Written by hand, so
 * that gRPC needs one optional package and no file is read at run time.
 */

const nothing = Buffer.alloc(0);
const isVarint = 0;
const isDelimited = 2;

/** Values that are empty are not written, as proto3 has it. */
export const textField = (number: number, value: string): Buffer =>
  value === "" ? nothing : delimitedField(number, Buffer.from(value));

export const flagField = (number: number, value: boolean): Buffer =>
  value ? Buffer.from([...varint((number << 3) | isVarint), 1]) : nothing;

export const delimitedField = (number: number, bytes: Uint8Array): Buffer =>
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

export interface Field {
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
export function* readFields(bytes: Uint8Array): Generator<Field> {
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
export const textOf = (bytes: Uint8Array): string => new TextDecoder("utf-8", utf8).decode(bytes);
const utf8 = { fatal: true, ignoreBOM: true } as const;
