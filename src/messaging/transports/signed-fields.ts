import type { SignedFields } from "./grpc-messages.js";

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
