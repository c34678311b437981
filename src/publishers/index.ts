export {
  type EventBridgePublisherOptions,
  eventBridgePublisher,
  type SnsPublisherOptions,
  type SqsPublisherOptions,
  snsPublisher,
  sqsPublisher,
} from "./aws.js";
export {
  type Envelope,
  openEnvelope,
  type ServiceBusPublisherOptions,
  type StorageQueuePublisherOptions,
  serviceBusPublisher,
  storageQueuePublisher,
} from "./azure.js";
export { type CircuitBreaker, circuitBreaker } from "./circuit-breaker.js";
export { type OutboxPublisherOptions, startOutboxPublisher } from "./outbox-publisher.js";
export type { BreakerPolicy, PublishedMessage, Publisher, PublisherOptions } from "./publisher.js";
export { type FunctionPublisherOptions, functionPublisher } from "./publisher.js";
export { type WebhookPublisherOptions, webhookPublisher } from "./webhook.js";
