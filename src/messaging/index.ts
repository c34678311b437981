export type { NodeMiddleware } from "../http/node.js";
export type { InputOf, OutputOf } from "../queue/standard-schema.js";
export type { TransportsOptions } from "./destinations.js";
export type { Envelope, MessageType } from "./envelope.js";
export type { HostedService, OpenService, ServiceContext } from "./hosted-service.js";
export type {
  InboxStats,
  OutboxStats,
  Resend,
  ResendFilter,
  ResendResult,
  SentFilter,
  ServiceMaintenance,
} from "./management.js";
export {
  type CommandDefinition,
  type CommandOptions,
  command,
  defineMessages,
  type MessageDefinition,
  type MessageDefinitions,
  type MessageOptions,
  type PushCallDefinition,
  type PushCalls,
  pushCall,
  type ReceiveContext,
  type Receivers,
  type Requesters,
  type RequestOptions,
  type ResponseContext,
  type ResponseHandlers,
  type Senders,
  type SendOptions,
  type SignalDefinition,
  signal,
} from "./messages.js";
export type { HandledRequest, ServiceReceiver } from "./receiver.js";
export { isResponseReference, type ResponseReference, responseReference } from "./responses.js";
export { RequestFailedError } from "./sender.js";
export { createService, type Service } from "./service.js";
export {
  type DeadMessage,
  type DeadReason,
  type DestinationOptions,
  type Endpoints,
  type RetryOptions,
  retryWindowMs,
  type SeparateDatabases,
  type ServiceAdmin,
  type ServiceOptions,
  type ServiceSettings,
  type SourceOptions,
} from "./service-options.js";
export { type SignOptions, signEnvelope } from "./sign-envelope.js";
export type { SentMessage, SentState } from "./stored-message.js";
export type { TransportName } from "./transports/address.js";
export type { GrpcTransportOptions } from "./transports/grpc-transport.js";
export type { HttpTransportOptions } from "./transports/http-transport.js";
export {
  type InProcessOptions,
  type InProcessReceiver,
  type InProcessTransport,
  inProcessTransport,
} from "./transports/in-process-transport.js";
export {
  type Listener,
  type ListeningReceiver,
  type ListenOptions,
  listen,
  type MiddlewareReceiver,
  type ReceiverMiddlewareOptions,
  receiverMiddleware,
} from "./transports/listen.js";
export {
  type TlsMaterial,
  type Transport,
  type TransportCall,
  type TransportDestination,
  TransportError,
  type TransportResponse,
} from "./transports/transport.js";
