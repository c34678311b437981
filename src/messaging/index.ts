export type { InputOf, OutputOf } from "../queue/standard-schema.js";
export type { Envelope, MessageType } from "./envelope.js";
export { messageTypes } from "./envelope.js";
export type { HostedService, OpenService } from "./hosted-service.js";
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
export type {
  InboxStats,
  OutboxStats,
  Resend,
  ResendFilter,
  ResendResult,
  SentFilter,
  ServiceMaintenance,
} from "./operations.js";
export type { ResponseReference } from "./responses.js";
export { isResponseReference, responseReference } from "./responses.js";
export { RequestFailedError } from "./sender.js";
export type { Service, ServiceReceiver } from "./service.js";
export { createService } from "./service.js";
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
export { defaultRetry, retryWindowMs } from "./service-options.js";
export type { SignOptions } from "./sign-envelope.js";
export { signEnvelope } from "./sign-envelope.js";
export type { SentMessage, SentState } from "./stored-message.js";
export { sentStates } from "./stored-message.js";
export { type TransportName, transportNames } from "./transports/address.js";
export { type GrpcTransportOptions, grpcTransport } from "./transports/grpc-transport.js";
export { type HttpTransportOptions, httpTransport } from "./transports/http-transport.js";
export {
  type InProcessOptions,
  type InProcessReceiver,
  type InProcessTransport,
  inProcessTransport,
} from "./transports/in-process-transport.js";
export type { Listener, ListenOptions } from "./transports/listen.js";
export {
  listen,
  type NodeMiddleware,
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
export {
  createTransports,
  type Transports,
  type TransportsOptions,
} from "./transports/transports.js";
