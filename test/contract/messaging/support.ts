import { afterEach, describe } from "vitest";
import { timeBudget } from "../../../src/base/async.js";
import type { MetricAttributes, Metrics } from "../../../src/base/telemetry.js";
import { uuidV7 } from "../../../src/base/uuid.js";
import type { Envelope } from "../../../src/messaging/envelope.js";
import { command, defineMessages, pushCall, signal } from "../../../src/messaging/messages.js";
import { createService } from "../../../src/messaging/service.js";
import type { DeadMessage, ServiceOptions } from "../../../src/messaging/service-options.js";
import { inProcessTransport } from "../../../src/messaging/transports/in-process-transport.js";
import type { Transport, TransportResponse } from "../../../src/messaging/transports/transport.js";
import type { StandardSchema } from "../../../src/queue/standard-schema.js";
import type { Database } from "../../../src/sql/dialect.js";
import { type SqlExecutor, statement } from "../../../src/sql/driver.js";
import {
  type ContractHarness,
  type TestClock,
  type TestDatabase,
  testClock,
  useDatabase,
} from "../harness.js";
import { inSchemaOf } from "../support/database.js";
import { type LogLine, recordingLogger } from "../support/recording-logger.js";

/** A schema of one text member, written by hand: the suite needs no validator. */
export const textMember = <Name extends string>(
  name: Name,
): StandardSchema<Record<Name, string>> & {
  readonly "~standard": {
    readonly types?: { readonly input: Record<Name, string>; readonly output: Record<Name, string> };
  };
} => ({
  "~standard": {
    version: 1,
    vendor: "oncebox-testing",
    validate(value) {
      const member = (value as Record<string, unknown> | null)?.[name];
      if (typeof member === "string") return { value: { [name]: member } as Record<Name, string> };
      return { issues: [{ message: "Expected text", path: [name] }] };
    },
  },
});

export const messages = defineMessages({
  OrderApproved: signal(textMember("orderId")),
  ReserveStock: command(textMember("item"), textMember("reservation")),
  MakeReport: command(textMember("year"), textMember("report"), { byReference: true }),
  InvoicePaid: pushCall(textMember("invoice"), textMember("receipt")),
});

type TestMessages = typeof messages;
type Destinations = "orders" | "inventory";
export type TestServiceOptions = Partial<ServiceOptions<TestMessages, Destinations>>;

/** What happens to a call on its way: `lost` before the receiver, `unanswered` after it, `twice` two deliveries at once. */
export type Fate = "arrives" | "lost" | "unanswered" | "twice" | TransportResponse;

/** Two services that call each other directly, and a table that their handlers write to. */
export interface Pair {
  readonly database: TestDatabase;
  readonly clock: TestClock;
  readonly orders: TestService;
  readonly inventory: TestService;
  /** Another instance of a service, as another process would run it. */
  another(name: Destinations, db: Database, options?: TestServiceOptions): TestService;
  /** The messages that were put on the wire, in order. */
  readonly wire: Envelope[];
  /** Each call takes the next fate. When they are used up, calls arrive. */
  readonly fates: Fate[];
  readonly dead: DeadMessage[];
  readonly log: LogLine[];
  readonly metrics: {
    readonly name: string;
    readonly value: number;
    readonly attributes: MetricAttributes;
  }[];
  /** Writes a row in a transaction. */
  write(tx: SqlExecutor, id: string): Promise<void>;
  rows(): Promise<readonly string[]>;
}

type TestService = ReturnType<typeof createTestService>;

const createTestService = (options: ServiceOptions<TestMessages, Destinations>) =>
  createService<TestMessages, Destinations>(options);

/** Makes a pair. Handlers that use it get it from `get`. */
type MakePair = (options?: PairOptions | ((get: () => Pair) => PairOptions)) => Promise<Pair>;

interface PairOptions {
  readonly orders?: TestServiceOptions;
  readonly inventory?: TestServiceOptions;
}

/** A command for the inventory. */
export const envelope = (content: Partial<Envelope> = {}): Envelope => ({
  messageId: uuidV7(),
  correlationId: null,
  sourceServiceId: "orders",
  messageType: "Command",
  endpoint: "ReserveStock",
  payload: { item: "chair" },
  headers: {},
  ...content,
});

/** A signal for the inventory. */
export const approved = (orderId: string, content: Partial<Envelope> = {}): Envelope =>
  envelope({ messageType: "Signal", endpoint: "OrderApproved", payload: { orderId }, ...content });

/** Tests with pairs of services on one database. */
export function describePairs(
  harness: ContractHarness,
  title: string,
  tests: (pair: MakePair) => void,
): void {
  describe(`${harness.name} messaging: ${title}`, () => {
    const database = useDatabase(harness);
    let pairs = 0;
    const services: TestService[] = [];
    afterEach(async () => {
      for (const service of services.splice(0)) await service.close();
    });
    tests(async (options = {}) => {
      const given = typeof options === "function" ? options(() => made!) : options;
      const made: Pair = await makePair(database(), ++pairs, services, given);
      return made;
    });
  });
}

/** Sends what is due. The time that passes for the messages is that of the clock. */
export const dispatch = (service: TestService) => service.dispatch(timeBudget(120_000));

async function makePair(
  database: TestDatabase,
  number: number,
  services: TestService[],
  given: PairOptions,
): Promise<Pair> {
  const { db } = database;
  const clock = testClock();
  const wire: Envelope[] = [];
  const fates: Fate[] = [];
  const dead: DeadMessage[] = [];
  const log: LogLine[] = [];
  const metrics: Pair["metrics"] = [];
  const inProcess = inProcessTransport();
  const transport = losingTransport(inProcess, wire, fates);
  const table = database.schema === undefined ? `rows${number}` : `${database.schema}.rows${number}`;

  const make = (name: Destinations, on: ServiceOptions["db"], options: TestServiceOptions = {}) => {
    const service = createTestService({
      serviceId: name,
      db: on,
      messages,
      destinations: { orders: { transport: "inprocess" }, inventory: { transport: "inprocess" } },
      transports: { own: [transport] },
      table: `${name}${number}`,
      retry: { jitterMs: 0 },
      onDead: (message) => void dead.push(message),
      logger: recordingLogger(log),
      metrics: recordingMetrics(metrics),
      clock,
      ...inSchemaOf(database),
      ...options,
    });
    services.push(service);
    return service;
  };
  const orders = make("orders", given.orders?.db ?? db, given.orders);
  const inventory = make("inventory", given.inventory?.db ?? db, given.inventory);
  for (const service of [orders, inventory]) {
    await service.init();
    inProcess.serve(service.serviceId, service.receiver);
  }
  await database.raw(`create table ${table} (id varchar(100) not null primary key)`);
  const insert = statement("insert row", `insert into ${table} (id) values (:id)`);
  return {
    database,
    clock,
    orders,
    inventory,
    another: make,
    wire,
    fates,
    dead,
    log,
    metrics,
    async write(tx, id) {
      await tx.query(insert, { id });
    },
    rows: async () =>
      (await database.raw(`select id from ${table} order by id`)).map((row) => String(row.id)),
  };
}

/** The in-process transport, with calls that get lost on their way there or back. */
function losingTransport(inner: Transport, wire: Envelope[], fates: Fate[]): Transport {
  return {
    ...inner,
    async send(message, ...rest) {
      wire.push(message);
      const fate = fates.shift() ?? "arrives";
      if (typeof fate === "object") return fate;
      if (fate === "lost") throw new Error("connect ECONNREFUSED");
      const [response] = await Promise.all([
        inner.send(message, ...rest),
        fate === "twice" ? inner.send(message, ...rest) : undefined,
      ]);
      if (fate === "unanswered") throw new Error("socket hang up");
      return response;
    },
  };
}

function recordingMetrics(into: Pair["metrics"]): Metrics {
  const record = (name: string, value: number, attributes: MetricAttributes): void =>
    void into.push({ name, value, attributes });
  return { count: record, duration: record, gauge: record };
}
