import { loadPackage } from "../../base/load-package.js";

/**
 * Loads `@grpc/grpc-js` at its first use. The `catch` is for bundlers: they then leave a package that is not installed to
 * the run time, and apps without gRPC can be bundled without it.
 */
export const loadGrpc = (): Promise<typeof import("@grpc/grpc-js")> =>
  loadPackage("@grpc/grpc-js", () => import("@grpc/grpc-js").catch(rethrow), "gRPC");

const rethrow = (error: unknown): never => {
  throw error;
};
