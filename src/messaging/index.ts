export type { InputOf, OutputOf } from "../queue/standard-schema.js";
export type { Service, ServiceReceiver } from "./create-service.js";
export { createService } from "./create-service.js";
export type {
  CommandDefinition,
  CommandOptions,
  MessageDefinition,
  MessageDefinitions,
  MessageOptions,
  PushCallDefinition,
  SignalDefinition,
} from "./define-messages.js";
export { command, defineMessages, pushCall, signal } from "./define-messages.js";
export type { Envelope, MessageType } from "./envelope.js";
export { messageTypes } from "./envelope.js";
export type { HostedService, OpenService } from "./hosted-service.js";
export type { OpenedEnvelope, OpenOptions } from "./open-envelope.js";
export { openEnvelope } from "./open-envelope.js";
export type { InboxStats, OutboxStats, SentFilter, ServiceMaintenance } from "./operations.js";
export { RequestFailedError } from "./request.js";
export type { Resend, ResendFilter, ResendResult } from "./resend.js";
export type { ResponseReference } from "./response-reference.js";
export { isResponseReference, responseReference } from "./response-reference.js";
export type { RetryOptions } from "./retry-options.js";
export { defaultRetry, retryWindowMs } from "./retry-options.js";
export type {
  DeadMessage,
  DeadReason,
  DestinationOptions,
  SeparateDatabases,
  ServiceOptions,
  ServiceSettings,
  SourceOptions,
} from "./service-options.js";
export type {
  PushCalls,
  ReceiveContext,
  Receivers,
  Requesters,
  RequestOptions,
  ResponseContext,
  ResponseHandlers,
  Senders,
  SendOptions,
} from "./service-types.js";
export type { SignOptions } from "./sign-envelope.js";
export { signEnvelope } from "./sign-envelope.js";
export type { SentMessage, SentState } from "./stored-message.js";
export { sentStates } from "./stored-message.js";
export type { Transport, TransportCall, TransportDestination, TransportResponse } from "./transport.js";
export type {
  GrpcTransportOptions,
  HttpTransportOptions,
  InProcessOptions,
  InProcessReceiver,
  InProcessTransport,
  Listener,
  ListenOptions,
  MessageBody,
  NodeMiddleware,
  ReceiverMiddlewareOptions,
  TlsMaterial,
  TransportName,
  Transports,
  TransportsOptions,
} from "./transports/index.js";
export {
  createTransports,
  grpcTransport,
  httpTransport,
  inProcessTransport,
  listen,
  receiverMiddleware,
  TransportError,
  transportNames,
} from "./transports/index.js";
