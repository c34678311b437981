import { delimitedField, flagField, readFields, textField, textOf } from "./protobuf.js";

/** The fields of a signed message, as `proto/rf-receiver.proto` has them. */
export interface SignedFields {
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
