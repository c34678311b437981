import type { MethodDefinition } from "@grpc/grpc-js";
import { memoisePromise } from "../../base/async.js";
import { loadPackage, requirePackage, rethrow } from "../../base/require-package.js";

/** `Message` of `proto/rf-receiver.proto`. */
export interface GrpcMessage {
  readonly messageId: string;
  /** Empty where the message has none. */
  readonly correlationId: string;
  readonly sourceServiceId: string;
  readonly messageType: string;
  readonly endpoint: string;
  /** In JSON. */
  readonly payload: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** `Acknowledgement` of `proto/rf-receiver.proto`. */
export interface GrpcAcknowledgement {
  readonly acknowledged: boolean;
  readonly duplicateDetected: boolean;
  /** In JSON, or empty. */
  readonly payload: string;
  readonly error: string;
  readonly permanent: boolean;
}

export interface GrpcService {
  readonly grpc: typeof import("@grpc/grpc-js");
  /** `RFReceiver.Receive`, with its serialisers. */
  readonly method: MethodDefinition<GrpcMessage, GrpcAcknowledgement>;
}

const grpcPackage = "@grpc/grpc-js";
/** A dependency of `@grpc/grpc-js`, so npm installs it with that. */
const loaderPackage = "@grpc/proto-loader";

export function requireGrpc(user: string): void {
  for (const name of [grpcPackage, loaderPackage]) requirePackage(name, user);
}

/** Loads gRPC at its first use. */
export const loadGrpc = memoisePromise(async (): Promise<GrpcService> => {
  const grpc = await loadPackage(grpcPackage, () => import("@grpc/grpc-js").catch(rethrow), "gRPC");
  const { fromJSON } = await loadPackage(
    loaderPackage,
    () => import("@grpc/proto-loader").catch(rethrow),
    "gRPC",
  );
  const { RFReceiver } = fromJSON(descriptor, { defaults: true });
  return { grpc, method: (RFReceiver as unknown as { Receive: GrpcService["method"] }).Receive };
});

const text = (id: number) => ({ type: "string", id }) as const;
const flag = (id: number) => ({ type: "bool", id }) as const;

/** The same as `proto/rf-receiver.proto`, which a test compares: a bundle has no file to read at run time. */
const descriptor = {
  nested: {
    RFReceiver: {
      methods: { Receive: { requestType: "Message", responseType: "Acknowledgement", comment: "" } },
    },
    Message: {
      fields: {
        messageId: text(1),
        correlationId: text(2),
        sourceServiceId: text(3),
        messageType: text(4),
        endpoint: text(5),
        payload: text(6),
        headers: { keyType: "string", ...text(7) },
      },
    },
    Acknowledgement: {
      fields: {
        acknowledged: flag(1),
        duplicateDetected: flag(2),
        payload: text(3),
        error: text(4),
        permanent: flag(5),
      },
    },
  },
};

/** How a receiver by gRPC refuses a message, for each status that a receiver by HTTP refuses it with. */
const refusals = new Map<number, "INVALID_ARGUMENT" | "UNAUTHENTICATED" | "RESOURCE_EXHAUSTED">([
  [400, "INVALID_ARGUMENT"],
  [401, "UNAUTHENTICATED"],
  [413, "RESOURCE_EXHAUSTED"],
]);

/** The name of gRPC's status for a status of HTTP. */
export const grpcStatusOf = (httpStatus: number) => refusals.get(httpStatus) ?? "INTERNAL";

/**
 * The status of HTTP that a status of gRPC stands for. RESOURCE_EXHAUSTED counts as "too large" only with the trailer
 * `rf-status: 413`: it is also the status of a receiver that has too much to do, and of a response that is too large.
 */
export function httpStatusOf(name: string, trailer: string | undefined): number | undefined {
  const found = [...refusals].find(([, refusal]) => refusal === name)?.[0];
  return found === 413 && trailer !== "413" ? undefined : found;
}
