import { type TenantBatch, tenantBatchesIn } from "../../tenants/fan-out/tenant-batch.js";

/** The tenant batches of an event: an invocation's own, or the batches in the messages of a queue. */
export function tenantBatchesOf(event: unknown): readonly TenantBatch[] {
  const { Records: records } = (event ?? {}) as { readonly Records?: unknown };
  return tenantBatchesIn(Array.isArray(records) ? records.map((record) => parsed(record?.body)) : [event]);
}

/** A message that is not JSON is not ours. */
function parsed(text: unknown): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    return undefined;
  }
}
