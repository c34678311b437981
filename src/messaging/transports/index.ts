export { type TransportName, transportNames } from "./address.js";
export { type GrpcTransportOptions, grpcTransport } from "./grpc-transport.js";
export { type HttpTransportOptions, httpTransport } from "./http-transport.js";
export {
  type InProcessOptions,
  type InProcessReceiver,
  type InProcessTransport,
  inProcessTransport,
} from "./in-process-transport.js";
export { listen } from "./listen.js";
export type { Listener, ListenOptions } from "./listen-settings.js";
export type { MessageBody } from "./message-body.js";
export {
  type NodeMiddleware,
  type ReceiverMiddlewareOptions,
  receiverMiddleware,
} from "./receiver-middleware.js";
export { TransportError } from "./transport-error.js";
export type { TlsMaterial } from "./transport-options.js";
export {
  createTransports,
  type DestinationOptions,
  type ResolvedDestination,
  type Transports,
  type TransportsOptions,
} from "./transports.js";
