export {
  type EventBridgePublisherOptions,
  eventBridgePublisher,
  type SnsPublisherOptions,
  type SqsPublisherOptions,
  snsPublisher,
  sqsPublisher,
} from "./aws.js";
export {
  type ServiceBusPublisherOptions,
  type StorageQueuePublisherOptions,
  serviceBusPublisher,
  storageQueuePublisher,
} from "./azure.js";
export type { CircuitBreaker } from "./circuit-breaker.js";
export type { MessageFormat } from "./cloud-events.js";
export { type OutboxPublisherOptions, startOutboxPublisher } from "./outbox-publisher.js";
export {
  type FunctionPublisherOptions,
  functionPublisher,
  type PublishedMessage,
  type Publisher,
  type PublisherOptions,
} from "./publisher.js";
export { type WebhookPublisherOptions, webhookPublisher } from "./webhook.js";
