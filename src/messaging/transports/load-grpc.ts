import { loadPackage, rethrow } from "../../base/load-package.js";

/** Loads `@grpc/grpc-js` at its first use. */
export const loadGrpc = (): Promise<typeof import("@grpc/grpc-js")> =>
  loadPackage("@grpc/grpc-js", () => import("@grpc/grpc-js").catch(rethrow), "gRPC");
