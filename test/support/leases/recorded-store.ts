import { defaultLeaseMs, type LeasingInboxStore } from "../../../src/inbox-store/inbox-store.js";
import { type Call, type HistoryRecord, moment } from "./history-records.js";

/** A store whose every call is written down. Records of several stores may go to one place if each has ids of its own. */
export function recordedStore(
  store: LeasingInboxStore,
  append: (record: HistoryRecord) => void,
): LeasingInboxStore {
  let calls = 0;
  async function recorded<T>(key: string, call: Call, work: () => Promise<T>): Promise<T> {
    const id = calls++;
    append({ id, ...moment(), key, call });
    try {
      const result = await work();
      append({ id, ...moment(), result: call.kind === "markProcessed" ? true : inMs(result) });
      return result;
    } catch (error) {
      append({ id, ...moment(), error: `${call.kind} ${key}: ${error}` });
      throw error;
    }
  }
  return {
    tryBegin: (key, options = {}) =>
      recorded(
        key,
        {
          kind: "tryBegin",
          leaseMs: options.leaseMs ?? defaultLeaseMs,
          ...(options.leaseId === undefined ? {} : { proposed: options.leaseId }),
        },
        () => store.tryBegin(key, options),
      ),
    renew: (key, leaseId, leaseMs, options) =>
      recorded(key, { kind: "renew", leaseId, leaseMs }, () => store.renew(key, leaseId, leaseMs, options)),
    finish: (key, leaseId, options) =>
      recorded(key, { kind: "finish", leaseId }, () => store.finish(key, leaseId, options)),
    release: (key, leaseId, options) =>
      recorded(key, { kind: "release", leaseId }, () => store.release(key, leaseId, options)),
    isProcessed: (key, options) =>
      recorded(key, { kind: "isProcessed" }, () => store.isProcessed(key, options)),
    markProcessed: (key, options) =>
      recorded(key, { kind: "markProcessed" }, () => store.markProcessed(key, options)),
    inspect: (key, options) => recorded(key, { kind: "inspect" }, () => store.inspect(key, options)),
    close: () => store.close(),
  };
}

/** A result whose times are numbers, in ms. */
function inMs(result: unknown): unknown {
  if (typeof result !== "object" || result === null) return result;
  const entries = Object.entries(result);
  return Object.fromEntries(
    entries.map(([name, value]) => [name, value instanceof Date ? value.getTime() : value]),
  );
}
