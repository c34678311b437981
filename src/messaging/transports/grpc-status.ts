/** The statuses of gRPC by their numbers. `@grpc/grpc-js` has them, too, but is loaded only when it is used. */
const names = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
];

export const statusName = (code: number | undefined): string => names[code ?? 2] ?? "UNKNOWN";

export const unimplemented = names.indexOf("UNIMPLEMENTED");

/** How a receiver by gRPC refuses a message, for each status that a receiver by HTTP refuses it with. */
const refusalCodes = new Map([
  [400, names.indexOf("INVALID_ARGUMENT")],
  [401, names.indexOf("UNAUTHENTICATED")],
  [413, names.indexOf("RESOURCE_EXHAUSTED")],
]);

/** The status of gRPC for a status of HTTP. Any that does not refuse the message is INTERNAL. */
export const grpcStatusOf = (httpStatus: number): number =>
  refusalCodes.get(httpStatus) ?? names.indexOf("INTERNAL");

/**
 * The status of HTTP that a status of gRPC stands for. RESOURCE_EXHAUSTED counts as "too large" only with the trailer
 * `rf-status: 413`: it is also the status of a receiver that has too much to do, and of a response that is too large.
 */
export function httpStatusOf(code: number | undefined, trailer: string | undefined): number | undefined {
  const found = [...refusalCodes].find(([, refusal]) => refusal === code)?.[0];
  return found === 413 && trailer !== "413" ? undefined : found;
}
