import { loadPackage, rethrow } from "../../base/load-package.js";

export const grpcPackage = "@grpc/grpc-js";

/** Loads `@grpc/grpc-js` at its first use. */
export const loadGrpc = (): Promise<typeof import("@grpc/grpc-js")> =>
  loadPackage(grpcPackage, () => import("@grpc/grpc-js").catch(rethrow), "gRPC");
