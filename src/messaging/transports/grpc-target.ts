import { InvalidArgumentError } from "../../errors.js";
import { grpcPath, parseAddress, shownAddress } from "./address.js";

export const grpcSchemes = ["grpc:", "grpcs:"] as const;

export interface GrpcTarget {
  readonly isSecure: boolean;
  /** `host:port`. */
  readonly authority: string;
  /** The method: `/RFReceiver/Receive`. */
  readonly path: string;
  readonly shown: string;
}

/** `grpc://host:port`, with the method's path or without it; `grpcs:` for TLS. */
export function grpcTarget(address: string): GrpcTarget {
  const url = parseAddress(address);
  const { protocol, host, port, pathname, username } = url;
  const path = pathname === "" || pathname === "/" ? grpcPath : pathname;
  const isUsable = host !== "" && port !== "" && username === "" && /^\/[\w.]+\/\w+$/.test(path);
  if (!isUsable) {
    throw new InvalidArgumentError(
      `${shownAddress(url)} is not the address of a gRPC receiver. Write ${protocol}//host:port${grpcPath}, without a user.`,
    );
  }
  return { isSecure: protocol === "grpcs:", authority: host, path, shown: `${protocol}//${host}${path}` };
}
