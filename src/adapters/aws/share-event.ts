import { joinedShares, shareIn, type TenantShare } from "../../tenants/share-message.js";

/** The tenants that an event is about: of an invocation, or of all messages of a queue's batch. */
export function shareOf(event: unknown): TenantShare | undefined {
  const { Records: records } = (event ?? {}) as { readonly Records?: unknown };
  if (!Array.isArray(records)) return shareIn(event);
  return joinedShares(
    records.map((record) => shareIn(parsed(record?.body))).filter((share) => share !== undefined),
  );
}

/** A queue may hold what others put into it: that is no share. */
function parsed(text: unknown): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    return undefined;
  }
}
