import { once } from "node:events";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { LeasingInboxStore } from "../../../src/inbox-store/inbox-store.js";
import { type HeldLease, WorkTimedOutError, withLease } from "../../../src/inbox-store/with-lease.js";
import { LeaseLostError } from "../../../src/queue/leases.js";
import { memoryStore } from "../../support/inbox-service/memory-store.js";

describe("withLease", () => {
  let store: LeasingInboxStore;
  beforeEach(async () => {
    store = await memoryStore();
  });
  afterEach(() => store.close());

  /** Waits for the abort, as work does that listens to its signal. */
  const untilAborted = async ({ signal }: HeldLease): Promise<never> => {
    if (!signal.aborted) await once(signal, "abort");
    throw signal.reason;
  };

  it("SVC-09 marks the key when the work resolves, and returns its result", async () => {
    const outcome = await withLease(store, "k", async ({ key, leaseId }) => [key, leaseId.length], {
      owner: "billing",
    });
    expect(outcome).toEqual({ status: "Done", result: ["k", 36] });
    expect(await store.inspect("k")).toMatchObject({ status: "Processed", owner: "billing" });
    expect(await withLease(store, "k", () => expect.fail())).toEqual({ status: "Processed" });
  });

  it("SVC-09 releases the key when the work rejects, and rethrows its error", async () => {
    const failure = new Error("the mail server is away");
    await expect(withLease(store, "k", () => Promise.reject(failure))).rejects.toBe(failure);
    expect(await store.inspect("k")).toMatchObject({ status: "Free", attempts: 1 });
  });

  it("SVC-09 does no work while another caller holds the key", async () => {
    const held = await store.tryBegin("k");
    const outcome = await withLease(store, "k", () => expect.fail());
    expect(outcome).toEqual({ status: "Busy", expiresAt: (held as { expiresAt: Date }).expiresAt });
  });

  it("SVC-09 renews the lease while the work runs", async () => {
    const renewed = countedRenewals(store);
    const first = { endsAt: 0, renewedAt: 0 };
    const outcome = await withLease(
      renewed.store,
      "k",
      async ({ key }) => {
        first.endsAt = leaseEnd(await store.inspect(key));
        await renewed.until(3);
        first.renewedAt = leaseEnd(await store.inspect(key));
        expect(await store.tryBegin(key)).toMatchObject({ status: "Busy" });
      },
      { renewEveryMs: 10 },
    );
    expect(outcome.status).toBe("Done");
    expect(first.renewedAt).toBeGreaterThan(first.endsAt);
  });

  it("SVC-09 aborts the work when the key is taken from it, and does not release it", async () => {
    const lost = withLease(
      store,
      "k",
      async (lease) => {
        await store.markProcessed("k");
        return untilAborted(lease);
      },
      { renewEveryMs: 10 },
    );
    await expect(lost).rejects.toBeInstanceOf(LeaseLostError);
    expect(await store.isProcessed("k")).toBe(true);
  });

  it("SVC-09 aborts the work when the lease could not be renewed until its end", async () => {
    const away: LeasingInboxStore = { ...store, renew: () => Promise.reject(new Error("away")) };
    await expect(withLease(away, "k", untilAborted, { leaseMs: 100 })).rejects.toBeInstanceOf(LeaseLostError);
  });

  it("SVC-09 aborts the work at the end of its lease also while a renewal hangs", async () => {
    const hanging: LeasingInboxStore = { ...store, renew: () => new Promise(() => {}) };
    await expect(withLease(hanging, "k", untilAborted, { leaseMs: 100 })).rejects.toBeInstanceOf(
      LeaseLostError,
    );
  });

  it("SVC-09 work that resolves after the lease was lost is not reported as done", async () => {
    const late = withLease(store, "k", () => store.markProcessed("k"));
    await expect(late).rejects.toBeInstanceOf(LeaseLostError);
  });

  it("SVC-09 a failed renewal is repeated before the lease ends", async () => {
    let failures = 2;
    const renewed = countedRenewals({
      ...store,
      renew: (...call) =>
        failures-- > 0 ? Promise.reject(new Error("the connection was reset")) : store.renew(...call),
    });
    const outcome = await withLease(renewed.store, "k", () => renewed.until(1), { renewEveryMs: 10 });
    expect(outcome.status).toBe("Done");
  });

  it("SVC-09 an abort of the caller aborts the work, and the key is released", async () => {
    const stopping = new AbortController();
    const reason = new Error("the function's time is over");
    const stopped = withLease(
      store,
      "k",
      (lease) => {
        stopping.abort(reason);
        return untilAborted(lease);
      },
      { signal: stopping.signal },
    );
    await expect(stopped).rejects.toBe(reason);
    expect(await store.inspect("k")).toMatchObject({ status: "Free" });
  });

  it("SVC-09 work that hangs is told at its time limit", async () => {
    let told: unknown;
    const work = ({ signal }: HeldLease) => {
      signal.addEventListener("abort", () => {
        told = signal.reason;
      });
      return new Promise(() => {});
    };
    const hung = withLease(store, "k", work, { leaseMs: 500, timeoutMs: 10 });
    await expect(hung).rejects.toBeInstanceOf(WorkTimedOutError);
    expect(told).toMatchObject({ code: "ONCEBOX_WORK_TIMED_OUT", timeoutMs: 10 });
  });

  it("SVC-09 the lease is no longer renewed after the time limit", async () => {
    const renewals: boolean[] = [];
    let isOver = false;
    const watched: LeasingInboxStore = {
      ...store,
      renew: (...call) => {
        renewals.push(isOver);
        return store.renew(...call);
      },
    };
    const work = ({ signal }: HeldLease) => {
      signal.addEventListener("abort", () => {
        isOver = true;
      });
      return new Promise(() => {});
    };
    await withLease(watched, "k", work, { leaseMs: 300, renewEveryMs: 5, timeoutMs: 100 }).catch(() => {});
    expect(renewals).not.toContain(true);
  });

  it("SVC-09 work that stops at its time limit has its key released at once, and its own error thrown", async () => {
    const stopped = withLease(store, "k", untilAborted, { leaseMs: 60_000, timeoutMs: 10 });
    await expect(stopped).rejects.toBeInstanceOf(WorkTimedOutError);
    expect(await store.inspect("k")).toMatchObject({ status: "Free", attempts: 1 });
  });

  it("SVC-09 work that resolves after its time limit and within its lease is done", async () => {
    const outcome = await withLease(store, "k", (lease) => untilAborted(lease).catch(() => "late"), {
      leaseMs: 60_000,
      timeoutMs: 10,
    });
    expect(outcome).toEqual({ status: "Done", result: "late" });
    expect(await store.isProcessed("k")).toBe(true);
  });

  it("SVC-09 work that was given up cannot mark its key when it ends after all", async () => {
    let end = (_: string): void => {};
    const work = () =>
      new Promise((resolve) => {
        end = resolve;
      });
    const options = { leaseMs: 20, timeoutMs: 10 };
    await expect(withLease(store, "k", work, options)).rejects.toBeInstanceOf(WorkTimedOutError);
    end("too late");
    await new Promise(setImmediate);
    expect(await store.isProcessed("k")).toBe(false);
  });

  it("SVC-09 the error of the work counts, not that of the release", async () => {
    const failure = new Error("the mail server is away");
    const away: LeasingInboxStore = { ...store, release: () => Promise.reject(new Error("away")) };
    await expect(withLease(away, "k", () => Promise.reject(failure))).rejects.toBe(failure);
  });

  it("SVC-09 refuses unknown options and bad values", async () => {
    await expect(withLease(store, "k", () => 1, { ttl: 1 } as object)).rejects.toThrow(/unknown option ttl/);
    await expect(
      withLease(store, "k", () => 1, { leaseMs: 0, renewEveryMs: -1, timeoutMs: -1 }),
    ).rejects.toThrow(/leaseMs must be .*; renewEveryMs must be .*; timeoutMs must be/);
  });
});

const leaseEnd = (report: object): number => (report as { leaseUntil: Date }).leaseUntil.getTime();

/** The store, with a count of the renewals that succeeded. */
function countedRenewals(store: LeasingInboxStore) {
  let renewals = 0;
  let check = (): void => {};
  return {
    store: {
      ...store,
      async renew(...call: Parameters<LeasingInboxStore["renew"]>) {
        const result = await store.renew(...call);
        if (result.status === "Renewed") renewals++;
        check();
        return result;
      },
    },
    until: (times: number) =>
      new Promise<void>((resolve) => {
        check = () => {
          if (renewals >= times) resolve();
        };
        check();
      }),
  };
}
