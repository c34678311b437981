import type { Budget } from "../base/budget.js";
import { defined } from "../base/defined.js";
import type { PlainRequest, PlainResponse, PlainRoute } from "../base/plain-http.js";
import type { DispatchResult } from "../dispatch/dispatch-run.js";
import { createDispatcher } from "../dispatch/dispatcher.js";
import { wakeUps } from "../dispatch/wake-ups.js";
import { InvalidArgumentError } from "../errors.js";
import { requireScope } from "../middleware/current-transaction.js";
import { transaction } from "../middleware/transaction-middleware.js";
import type { OutboxMessage } from "../queue/message.js";
import type { SqlExecutor } from "../sql/driver.js";
import { migrate, runBatches } from "../sql/migrate.js";
import { checkService } from "./check-service.js";
import { deadMessages } from "./dead-messages.js";
import type { MessageDefinition, MessageDefinitions } from "./define-messages.js";
import { deliverer } from "./deliver.js";
import type { Envelope } from "./envelope.js";
import { type Operations, serviceOperations } from "./operations.js";
import { outboxHandlers } from "./outbox-handlers.js";
import { outboxQueue } from "./outbox-queue.js";
import { wrapPushCall } from "./push-call.js";
import { createReceive } from "./receiver.js";
import { receiverHttp } from "./receiver-http.js";
import { requester } from "./request.js";
import { responseHandler } from "./responses.js";
import { policyOf } from "./retry-options.js";
import { createSender } from "./sender.js";
import { serviceDestinations } from "./service-destinations.js";
import { serviceLife } from "./service-life.js";
import type { AnyServiceOptions, ServiceOptions } from "./service-options.js";
import { type ServiceParts, serviceParts } from "./service-parts.js";
import type {
  Combined,
  PushCalls,
  Requesters,
  RequestOptions,
  Senders,
  SendOptions,
} from "./service-types.js";
import { type ServiceWorker, serviceWorker } from "./service-worker.js";
import type { TransportResponse } from "./transport.js";

export interface ServiceReceiver {
  /** For hosts with requests of the web: verifies, deduplicates and handles a message. */
  fetch(request: Request): Promise<Response>;
  /** The same for `listen`. */
  readonly respond: PlainRoute;
  /** The same for hosts whose own routes lead here: takes any path. */
  handle(request: Pick<PlainRequest, "method" | "headers" | "body">): Promise<PlainResponse>;
  /** Larger messages are refused. */
  readonly maxBodyBytes: number;
  /** For a sender in the same process: nothing is serialised and nothing is verified. */
  receive(message: Envelope): Promise<TransportResponse>;
}

export interface Service<Messages extends MessageDefinitions, Destination extends string>
  extends Operations,
    ServiceWorker {
  readonly serviceId: string;
  /** Writes messages to the outbox, typed from the declaration. */
  readonly send: Senders<Messages, Destination>;
  /** Sends commands directly and waits for their responses. */
  readonly request: Requesters<Messages, Destination>;
  /** Wraps functions whose calls are sent. */
  readonly pushCall: PushCalls<Messages, Destination>;
  readonly receiver: ServiceReceiver;
  /** Creates or updates the tables. Call it when you deploy. */
  init(): Promise<void>;
  /** Runs `work` in a transaction on the outbox's database. `send` joins it, and the worker is woken by the commit. */
  transaction<T>(work: (tx: SqlExecutor) => Promise<T>): Promise<T>;
  /**
   * Calls `wake` after each commit of this service that has stored messages to send, for a dispatcher elsewhere. Returns how
   * to unsubscribe.
   */
  onWake(wake: () => void): () => void;
  /** For a function: sends what is due within the budget. */
  dispatch(budget: Budget): Promise<DispatchResult>;
  /**
   * For good: a closed service sends nothing any more. Stops the worker, waits for calls of `onDead` (for `handlerTimeoutMs` at most) and closes the connections to other
   * services. The database stays open.
   */
  close(): Promise<void>;
}

/**
 * A service that sends messages to other services and handles theirs: each is delivered at least once and handled exactly
 * once. Does no I/O until it is used. All problems of the options are in one error.
 *
 * @example
 * const orders = createService({ serviceId: "orders", db, messages, destinations: { inventory: { address, secrets } } });
 * await orders.send.OrderApproved("inventory", { orderId: "7" }, { tx });
 */
export function createService<
  const Messages extends MessageDefinitions | readonly MessageDefinitions[],
  Destination extends string = never,
>(options: ServiceOptions<Messages, Destination>): Service<Combined<Messages>, Destination> {
  if (typeof options !== "object" || options === null)
    throw new InvalidArgumentError("createService: the options must be an object.");
  const given = options as unknown as AnyServiceOptions;
  const destinations = serviceDestinations(given);
  checkService(given, destinations.problems);
  const wakes = wakeUps();
  const parts: ServiceParts = serviceParts(given, {
    destinations: destinations.all,
    dead: deadMessages(() => parts),
    wake: wakes.wake,
  });
  const { settings, messages, outbox } = parts;
  const sender = createSender(parts);
  const deliver = deliverer(parts);
  const handleResponse = responseHandler(parts);
  const request = requester(parts, sender, deliver);
  const receive = createReceive(parts, sender, handleResponse);
  const operations = serviceOperations(parts);
  const dispatcher = createDispatcher<OutboxMessage>({
    handlers: outboxHandlers(parts, deliver, handleResponse),
    batchSize: settings.batchSize,
    concurrency: settings.concurrency,
    leaseMs: settings.leaseMs,
    retry: policyOf(settings.retry),
    ...defined({ metrics: given.metrics, tracing: given.tracing }),
  });
  const worker = serviceWorker(parts, dispatcher, operations);
  const life = serviceLife(parts.serviceId);
  wakes.subscribe(worker.wake);

  /** One function for each endpoint of these kinds. */
  const byEndpoint = (kinds: readonly MessageDefinition["messageType"][], make: (name: string) => unknown) =>
    Object.fromEntries(
      [...messages]
        .filter(([, { messageType }]) => kinds.includes(messageType))
        .map(([name]) => [name, make(name)]),
    );

  return {
    ...operations,
    ...worker,
    serviceId: parts.serviceId,
    send: byEndpoint(
      ["Signal", "Command"],
      (name) => (destination: string, payload: unknown, sendOptions?: SendOptions) =>
        sender.send(name, destination, payload, sendOptions),
    ) as Senders<Combined<Messages>, Destination>,
    request: byEndpoint(
      ["Command"],
      (name) => async (destination: string, payload: unknown, requestOptions?: RequestOptions) => {
        life.requireOpen();
        return request(name, destination, payload, requestOptions);
      },
    ) as Requesters<Combined<Messages>, Destination>,
    pushCall: byEndpoint(["PushCall"], (name) => wrapPushCall(parts, sender, name)) as PushCalls<
      Combined<Messages>,
      Destination
    >,
    receiver: { receive, ...receiverHttp(parts, receive) },
    init: () => createTables(parts),
    transaction: (work) => wakingTransaction(parts, work),
    onWake: wakes.subscribe,
    start() {
      life.requireOpen();
      worker.start();
    },
    async dispatch(budget) {
      life.requireOpen();
      const result = await dispatcher.run(outbox, budget, { onWake: wakes.subscribe });
      await parts.dead.ended(budget);
      return result;
    },
    async close() {
      life.end();
      await worker.stop();
      await parts.dead.ended();
      await destinations.close();
    },
  };
}

async function createTables(parts: ServiceParts): Promise<void> {
  const { outboxDb, inboxDb, settings, options } = parts;
  const queue = outboxQueue(parts);
  const [outbox, inbox] = [queue.table, `${settings.table}_inbox`];
  const schema = defined({ schema: options.schema });
  if (outboxDb === inboxDb) await migrate(outboxDb, { ...schema, outbox, inbox });
  else {
    await migrate(outboxDb, { ...schema, outbox, inbox: false });
    await migrate(inboxDb, { ...schema, inbox, outbox: false });
  }
  const { dialect } = outboxDb;
  const names = dialect.names("outbox", options.schema ?? dialect.defaults.schema, outbox);
  await outboxDb.exclusively(names.schema, (tx) => runBatches(tx, dialect.sentView(names)));
  if (options.notify) await outboxDb.notifications?.enable(queue);
}

async function wakingTransaction<T>(
  { outboxDb, sentIn, wake }: ServiceParts,
  work: (tx: SqlExecutor) => Promise<T>,
): Promise<T> {
  let used: SqlExecutor | undefined;
  const result = await transaction(outboxDb).run(undefined, () => {
    used = requireScope("outbox").tx;
    return work(used);
  });
  if (used !== undefined && sentIn.has(used)) wake();
  return result as T;
}
