import { type Budget, memoisePromise, repeating, timeBudget } from "../base/async.js";
import { omitUndefined } from "../base/defined.js";
import { safeReason } from "../base/logger.js";
import type { DispatchResult } from "../dispatch/dispatch-run.js";
import { createDispatcher, type Dispatcher } from "../dispatch/dispatcher.js";
import { startWorker, type Worker, wakeUps } from "../dispatch/worker.js";
import { InvalidArgumentError, InvalidOperationError } from "../errors.js";
import type { OutboxMessage } from "../queue/message.js";
import type { SqlExecutor } from "../sql/driver.js";
import { checkService } from "./check-service.js";
import { deliverer, outboxHandlers } from "./delivery.js";
import { type ServiceManagement, serviceManagement } from "./management.js";
import type {
  Combined,
  MessageDefinition,
  MessageDefinitions,
  PushCalls,
  Requesters,
  RequestOptions,
  Senders,
  SendOptions,
} from "./messages.js";
import { createMessageReceiver, receiverHttp, type ServiceReceiver } from "./receiver.js";
import { deadMessages, otherWarnings } from "./reports.js";
import { responseHandler } from "./responses.js";
import { createSender, requester, wrapPushCall } from "./sender.js";
import { type AnyServiceOptions, policyOf, type ServiceOptions } from "./service-options.js";
import { type ServiceParts, serviceParts, wakingTransaction } from "./service-parts.js";
import { createServiceTables } from "./service-tables.js";

/** Sends and receives the messages of a service. */
export interface Service<Messages extends MessageDefinitions, Destination extends string>
  extends ServiceManagement,
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
  /** For a function: sends due messages within the budget. */
  dispatch(budget: Budget): Promise<DispatchResult>;
  /**
   * For good: a closed service sends nothing any more. Stops the worker, waits for calls of `onDead` (for `handlerTimeoutMs`
   * at most) and closes the connections to other services. The database stays open.
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
  const destinations = checkService(given);
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
  const receive = createMessageReceiver(parts, sender, handleResponse);
  const management = serviceManagement(parts);
  // Loaded at the first request for them: few functions ever serve one.
  const diagnostics = memoisePromise(async () =>
    (await import("./diagnostics.js")).serviceDiagnostics(parts, management),
  );
  const dispatcher = createDispatcher<OutboxMessage>({
    handlers: outboxHandlers(parts, deliver, handleResponse),
    batchSize: settings.batchSize,
    concurrency: settings.concurrency,
    leaseMs: settings.leaseMs,
    retry: policyOf(settings.retry),
    logger: otherWarnings(parts.reports.logger),
    ...omitUndefined({ metrics: given.metrics, tracing: given.tracing }),
  });
  const worker = serviceWorker(parts, dispatcher, management);
  wakes.subscribe(worker.wake);

  let isClosed = false;
  /** After `close` the transports are closed, and messages would fail and use up their retries. */
  const requireOpen = (): void => {
    if (isClosed)
      throw new InvalidOperationError(`The service "${parts.serviceId}" is closed. Create it anew.`);
  };

  /** One function for each endpoint of these kinds. */
  const byEndpoint = (kinds: readonly MessageDefinition["messageType"][], make: (name: string) => unknown) =>
    Object.fromEntries(
      [...messages]
        .filter(([, { messageType }]) => kinds.includes(messageType))
        .map(([name]) => [name, make(name)]),
    );

  return {
    ...management,
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
        requireOpen();
        return request(name, destination, payload, requestOptions);
      },
    ) as Requesters<Combined<Messages>, Destination>,
    pushCall: byEndpoint(["PushCall"], (name) => wrapPushCall(parts, sender, name)) as PushCalls<
      Combined<Messages>,
      Destination
    >,
    receiver: { receive, ...receiverHttp(parts, receive, diagnostics) },
    init: () => createTables(parts),
    transaction: (work) => wakingTransaction(parts, work),
    onWake: wakes.subscribe,
    start() {
      requireOpen();
      worker.start();
    },
    async dispatch(budget) {
      requireOpen();
      const result = await dispatcher.run(outbox, budget, { onWake: wakes.subscribe });
      await parts.dead.ended(budget);
      return result;
    },
    async close() {
      isClosed = true;
      await worker.stop();
      await parts.dead.ended();
      await destinations.close();
    },
  };
}

async function createTables(parts: ServiceParts): Promise<void> {
  const { outboxDb, inboxDb, outboxQueue, notifications, settings, options } = parts;
  await createServiceTables({ outboxDb, inboxDb, schema: options.schema, table: settings.table });
  await notifications?.enable(outboxQueue);
  if (options.notify === false) await outboxDb.notifications?.disable(outboxQueue);
}

interface ServiceWorker {
  start(): void;
  /** Resolves when every message that was being sent is settled. */
  stop(): Promise<void>;
  wake(): void;
}

const shortestReapMs = 60_000;

/** For a server: sends messages as they come, and cleans up at intervals. */
function serviceWorker(
  parts: ServiceParts,
  dispatcher: Dispatcher<OutboxMessage>,
  { maintain }: Pick<ServiceManagement, "maintain">,
): ServiceWorker {
  const { outbox, outboxQueue, notifications, settings, options, reports, destinations } = parts;
  const { pollMs, idlePollMs, cleanupMs } = settings;
  let running: Pick<Worker, "wake" | "stop"> | undefined;

  const cleanUp = async (signal: AbortSignal): Promise<void> => {
    await maintain(timeBudget(cleanupMs, signal)).catch((error: unknown) => {
      if (!signal.aborted) reports.logger.error("clean-up failed", { error: safeReason(error) });
    });
  };
  const byCommit = () => notifications?.wakeUp(outboxQueue, reports.logger);
  const sending = (): Worker =>
    startWorker(dispatcher, outbox, {
      pollMs,
      idlePollMs,
      reapMs: Math.max(shortestReapMs, idlePollMs), // so that it does not keep a database awake, either
      logger: reports.logger,
      ...omitUndefined({ wakeUp: options.wakeUp ?? byCommit() }),
    });

  return {
    start() {
      if (running !== undefined) throw new InvalidOperationError("The service has been started already.");
      // Without destinations nothing is sent, responses included. The clean-up also ends what an earlier version has left.
      const worker = destinations.size === 0 ? undefined : sending();
      const cleaning = repeating(cleanupMs, cleanUp);
      running = {
        wake: () => worker?.wake(),
        async stop() {
          await Promise.all([worker?.stop(), cleaning.stop()]);
        },
      };
    },
    async stop() {
      const stopped = running;
      running = undefined;
      await stopped?.stop();
    },
    wake: () => running?.wake(),
  };
}
