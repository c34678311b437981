import { afterAll, describe, expect, inject, it, onTestFinished } from "vitest";
import type { KillableHarness, TestDatabase } from "../../contract/harness.js";
import { postgresHarness } from "../../support/postgres-harness.js";
import { type ServiceProcess, serviceProcesses } from "../../support/service-processes.js";
import { sqliteHarness } from "../../support/sqlite-harness.js";
import {
  exactlyOnce,
  type Side,
  startTwoServices,
  type TwoServices,
  type TwoServicesOptions,
} from "./two-services.js";

/** Longer than a lease: what a killed service was sending can be sent again. */
const afterLease = String(10 * 60_000);
const afterExpiry = String(25 * 60 * 60_000);

const postgresUrl = inject("postgresUrl");

failureTable({ ...postgresHarness(postgresUrl), urlOf: () => postgresUrl });
failureTable({ ...sqliteHarness("file"), urlOf: ({ db }) => db.id.slice("sqlite:".length) });

/** Each row of the failure table, with a sender and a receiver in two processes. */
function failureTable(harness: KillableHarness): void {
  describe(`${harness.name}: the failure table`, () => {
    const processes = serviceProcesses(afterAll);

    /** Starts both services; the order "first" has been placed and handled. */
    const start = async (options: TwoServicesOptions = {}): Promise<TwoServices> => {
      const open = async (): Promise<Side> => {
        const database: TestDatabase = await harness.open();
        onTestFinished(() => database.close());
        return { url: harness.urlOf(database), schema: database.schema, query: database.raw };
      };
      const sides = { orders: await open(), inventory: await open() };
      const services = await startTwoServices(processes, sides, onTestFinished, options);
      await services.place("first");
      await services.settled();
      return services;
    };

    /** Starts a killed service at a time when its leases have expired. */
    const restart = async ({ call }: TwoServices, service: ServiceProcess): Promise<void> => {
      await service.startAgain();
      await call(service, "/later", afterLease);
    };

    /** Places the order "victim", and kills services as soon as one of them has come to the point. */
    const killedAt = async (
      services: TwoServices,
      point: string,
      victims: readonly ServiceProcess[],
    ): Promise<"placed" | "not placed"> => {
      const reached = services.points.hold(point);
      const placed = services.place("victim").then(
        () => "placed" as const,
        () => "not placed" as const,
      );
      await reached;
      await Promise.all(victims.map((one) => one.kill()));
      return placed;
    };

    /** Lets everybody go on, starts what was killed, and places the order "last". */
    const goOn = async (services: TwoServices, killed: readonly ServiceProcess[] = []): Promise<void> => {
      services.points.release();
      for (const service of killed) await restart(services, service);
      await services.place("last");
      await services.settled();
    };

    /** What `onDead` did to make up for orders that could not be delivered. */
    const cancellations = (services: TwoServices) => services.rows("orders", "cancellations");

    const all = exactlyOnce("first", "victim", "last");

    it.each(["before the outbox write", "before the commit"])(
      "MSG-01 MSG-16 when the sender crashes before the outbox write (%s), neither the order nor its message is stored",
      async (point) => {
        const services = await start();
        const { orders } = services;
        expect(await killedAt(services, `orders: ${point}`, [orders])).toBe("not placed");
        expect(await services.rows("orders", "orders")).toEqual(["first"]);
        expect(await services.states()).toEqual(["Sent"]);
        await goOn(services, [orders]);
        expect(await services.tally()).toEqual(exactlyOnce("first", "last"));
        expect(await services.states()).toEqual(["Sent", "Sent"]);
      },
    );

    it("MSG-02 MSG-16 when the sender crashes after the outbox write, before it sends, the Pending message is sent after the restart", async () => {
      const services = await start();
      const { orders, points } = services;
      await orders.kill();
      const waits = points.hold("orders: before the worker starts");
      await orders.startAgain();
      await waits;
      await services.place("victim");
      expect(await services.states()).toEqual(["Pending", "Sent"]);
      await orders.kill();
      expect(await services.rows("inventory", "reservations")).toEqual(["first"]);
      await goOn(services, [orders]);
      expect(await services.tally()).toEqual(all);
    });

    it.each([
      ["before the send", ["first"]],
      ["after the acknowledgement", ["first", "victim"]],
    ])(
      "MSG-02 MSG-16 when the sender crashes after the outbox write, %s, the Sending message is sent after its lease",
      async (point, handled) => {
        const services = await start();
        const { orders } = services;
        expect(await killedAt(services, `orders: ${point}`, [orders])).toBe("placed");
        expect(await services.states()).toEqual(["Sending", "Sent"]);
        expect(await services.rows("inventory", "reservations")).toEqual(handled);
        await goOn(services, [orders]);
        expect(await services.tally()).toEqual(all);
      },
    );

    it.each(["cut-request", "drop-request"] as const)(
      "MSG-02 MSG-16 after a network failure during the send (%s) the message is sent again",
      async (fault) => {
        const services = await start();
        services.faults.push(fault, fault);
        await services.place("victim");
        await services.settled();
        expect(services.proxy.counts).toMatchObject({ [fault]: 2, away: 0, none: 2 });
        await goOn(services);
        expect(await services.tally()).toEqual(all);
      },
    );

    it("MSG-04 MSG-16 MSG-17 a message that expires before its delivery is not sent, is passed to onDead, and can be sent by retry", async () => {
      const services = await start();
      const { orders, inventory, proxy } = services;
      await inventory.kill();
      const messageId = await services.place("victim");
      await expect.poll(() => proxy.counts.away).toBeGreaterThan(0);
      await services.call(orders, "/later", afterExpiry);
      await expect.poll(() => cancellations(services)).toEqual(["victim Expired"]);
      await goOn(services, [inventory]);
      const withoutVictim = { lost: ["victim"], withoutResponse: ["victim"] };
      expect(await services.tally()).toEqual({ ...all, ...withoutVictim });
      expect(await cancellations(services)).toEqual(["victim Expired"]);
      expect(await services.call(orders, "/stats")).toMatchObject({ Sent: 2, Expired: 1, Failed: 0 });

      expect(await services.call(orders, "/retry", messageId)).toBe(true);
      await services.settled();
      expect(await services.tally()).toEqual(all);
      expect(await services.states()).toEqual(["Sent", "Sent", "Sent"]);
    });

    it("MSG-04 MSG-16 a message that expires while its sender is away is Expired after the restart and never sent", async () => {
      const services = await start();
      const { orders, points } = services;
      await killedAt(services, "orders: before the send", [orders]);
      points.release();
      const waits = points.hold("orders: before the worker starts");
      await orders.startAgain();
      await waits;
      await services.call(orders, "/later", afterExpiry);
      await goOn(services);
      await expect.poll(() => cancellations(services)).toEqual(["victim Expired"]);
      expect(await services.rows("inventory", "reservations")).toEqual(["first", "last"]);
    });

    it.each([
      ["before processing", "before it handles"],
      ["after processing, before inbox write", "in the handler"],
      ["after processing and inbox write, before the commit", "before the commit"],
    ])(
      "MSG-05 MSG-16 when the receiver crashes %s, nothing is stored, and the retry is processed",
      async (_, point) => {
        const services = await start();
        const { inventory } = services;
        await killedAt(services, `inventory: ${point}`, [inventory]);
        expect(await services.rows("inventory", "reservations")).toEqual(["first"]);
        await goOn(services, [inventory]);
        expect(await services.tally()).toEqual(all);
      },
    );

    it("MSG-05 MSG-16 when the receiver crashes after the commit, before it acknowledges, the retry is a duplicate", async () => {
      const services = await start();
      const { inventory } = services;
      await killedAt(services, "inventory: before the acknowledgement", [inventory]);
      expect(await services.rows("inventory", "reservations")).toEqual(["first", "victim"]);
      await goOn(services, [inventory]);
      expect(await services.tally()).toEqual(all);
    });

    it.each(["drop-answer", "cut-answer"] as const)(
      "MSG-05 MSG-16 when the acknowledgement is lost on its way (%s), the retries are duplicates",
      async (fault) => {
        const services = await start();
        services.faults.push(fault, fault);
        await services.place("victim");
        await services.settled();
        expect(services.proxy.counts).toMatchObject({ [fault]: 2, away: 0, none: 2 });
        expect(services.points.passed("inventory: in the handler")).toBe(2);
        await goOn(services);
        expect(await services.tally()).toEqual(all);
      },
    );

    it.each([
      ["while the receiver processes", "in the handler"],
      ["after the receiver has processed", "before the acknowledgement"],
    ])(
      "MSG-05 MSG-16 when the sender times out and retries %s, the message is processed once",
      async (_, point) => {
        const services = await start({ timeoutMs: 500 });
        const { points } = services;
        const before = points.passed("inventory: before it handles");
        await killedAt(services, `inventory: ${point}`, []);
        const deliveries = () => points.passed("inventory: before it handles") - before;
        await expect.poll(deliveries).toBeGreaterThan(1);
        points.release();
        await services.settled();
        expect(points.passed("inventory: in the handler")).toBe(2);
        await goOn(services);
        expect(await services.tally()).toEqual(all);
      },
    );

    it.each([
      ["before the inbox write", "in the handler", ["first"]],
      ["after the inbox write", "before the acknowledgement", ["first", "victim"]],
    ])(
      "MSG-05 MSG-16 when sender and receiver crash together, %s, the message is processed once after both restart",
      async (_, point, handled) => {
        const services = await start();
        const both = [services.orders, services.inventory];
        await killedAt(services, `inventory: ${point}`, both);
        expect(await services.states()).toEqual(["Sending", "Sent"]);
        expect(await services.rows("inventory", "reservations")).toEqual(handled);
        await goOn(services, both);
        expect(await services.tally()).toEqual(all);
      },
    );
  });
}
