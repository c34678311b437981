import { type TenantBatch, tenantBatchesIn } from "../../tenants/fan-out/tenant-batch.js";

/** The tenants that an event is about: of an invocation, or of all messages of a queue's batch. */
export function tenantBatchesOf(event: unknown): readonly TenantBatch[] {
  const { Records: records } = (event ?? {}) as { readonly Records?: unknown };
  return tenantBatchesIn(Array.isArray(records) ? records.map((record) => parsed(record?.body)) : [event]);
}

/** A queue may hold what others put into it: that is no share. */
function parsed(text: unknown): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    return undefined;
  }
}
