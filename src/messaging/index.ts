export type { NodeMiddleware } from "../http/node.js";
export type { TransportsOptions } from "./destinations.js";
export type { Envelope, MessageType } from "./envelope.js";
export type { HostedService, OpenService, ServiceContext } from "./hosted-service.js";
export type { InboxStats, OutboxStats, Resend, ResendResult, ServiceMaintenance } from "./management.js";
export {
  type CommandDefinition,
  type CommandOptions,
  command,
  defineMessages,
  type MessageDefinition,
  type MessageDefinitions,
  type MessageOptions,
  type PushCallDefinition,
  pushCall,
  type ReceiveContext,
  type ResponseContext,
  type SignalDefinition,
  signal,
} from "./messages.js";
export type { HandledRequest, ServiceReceiver } from "./receiver.js";
export { isResponseReference, responseReference } from "./responses.js";
export { RequestFailedError } from "./sender.js";
export { createService, type Service } from "./service.js";
export {
  type DeadMessage,
  type DestinationOptions,
  retryWindowMs,
  type ServiceOptions,
  type ServiceSettings,
  type SourceOptions,
} from "./service-options.js";
export { signEnvelope } from "./sign-envelope.js";
export type { SentMessage, SentState } from "./stored-message.js";
export type { GrpcTransportOptions } from "./transports/grpc-transport.js";
export type { HttpTransportOptions } from "./transports/http-transport.js";
export {
  type InProcessOptions,
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
export { type Transport, TransportError, type TransportResponse } from "./transports/transport.js";
