export type { Service, ServiceReceiver } from "./create-service.js";
export { createService } from "./create-service.js";
export type {
  CommandDefinition,
  CommandOptions,
  InputOf,
  MessageDefinition,
  MessageDefinitions,
  MessageOptions,
  OutputOf,
  PushCallDefinition,
  SignalDefinition,
} from "./define-messages.js";
export { command, defineMessages, pushCall, signal } from "./define-messages.js";
export type { Envelope, MessageType } from "./envelope.js";
export { messageTypes } from "./envelope.js";
export type { InboxStats, OutboxStats, SentFilter, ServiceMaintenance } from "./operations.js";
export { RequestFailedError } from "./request.js";
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
  PushCall,
  ReceiveContext,
  Receivers,
  Request,
  RequestOptions,
  ResponseContext,
  ResponseHandlers,
  Send,
  SendOptions,
} from "./service-types.js";
export type { SentMessage, SentState } from "./stored-message.js";
export { sentStates } from "./stored-message.js";
export type { Transport, TransportCall, TransportDestination, TransportResponse } from "./transport.js";
