export type { NodeMiddleware } from "../http/node.js";
export type { InputOf, OutputOf } from "../queue/standard-schema.js";
export type { Envelope, MessageType } from "./envelope.js";
export type { HostedService, OpenService } from "./hosted-service.js";
export type {
  InboxStats,
  OutboxStats,
  Resend,
  ResendFilter,
  ResendResult,
  SentFilter,
  ServiceMaintenance,
} from "./management.js";
export type {
  CommandDefinition,
  CommandOptions,
  MessageDefinition,
  MessageDefinitions,
  MessageOptions,
  PushCallDefinition,
  PushCalls,
  ReceiveContext,
  Receivers,
  Requesters,
  RequestOptions,
  ResponseContext,
  ResponseHandlers,
  Senders,
  SendOptions,
  SignalDefinition,
} from "./messages.js";
export { command, defineMessages, pushCall, signal } from "./messages.js";
export type { OpenedEnvelope, OpenOptions } from "./open-envelope.js";
export { openEnvelope } from "./open-envelope.js";
export type { ServiceReceiver } from "./receiver.js";
export type { ResponseReference } from "./responses.js";
export { isResponseReference, responseReference } from "./responses.js";
export { RequestFailedError } from "./sender.js";
export { createService, type Service } from "./service.js";
export type {
  DeadMessage,
  DeadReason,
  DestinationOptions,
  RetryOptions,
  SeparateDatabases,
  ServiceOptions,
  ServiceSettings,
  SourceOptions,
} from "./service-options.js";
export { retryWindowMs } from "./service-options.js";
export type { SignOptions } from "./sign-envelope.js";
export { signEnvelope } from "./sign-envelope.js";
export type { SentMessage, SentState } from "./stored-message.js";
export type { TransportName } from "./transports/address.js";
export { type GrpcTransportOptions, grpcTransport } from "./transports/grpc-transport.js";
export { type HttpTransportOptions, httpTransport } from "./transports/http-transport.js";
export {
  type InProcessOptions,
  type InProcessReceiver,
  type InProcessTransport,
  inProcessTransport,
} from "./transports/in-process-transport.js";
export {
  type Listener,
  type ListenOptions,
  listen,
  type ReceiverMiddlewareOptions,
  receiverMiddleware,
} from "./transports/listen.js";
export type {
  TlsMaterial,
  Transport,
  TransportCall,
  TransportDestination,
  TransportResponse,
} from "./transports/transport.js";
export { TransportError } from "./transports/transport.js";
export type { TransportsOptions } from "./transports/transports.js";
