import { defined } from "../base/defined.js";
import { InvalidArgumentError } from "../errors.js";
import { optionalCount, requireDuration, requireList } from "../queue/arguments.js";
import { callInTransaction, checkCall, plainCall } from "../queue/check-call.js";
import type { QueueMessage } from "../queue/message.js";
import { ownerToken } from "../queue/owner-token.js";
import { mostAttempts } from "../queue/retry-policy.js";
import type { Abandonment } from "../queue/work-store.js";
import type { Operations, QueueParts } from "./queue-parts.js";
import { settleMessages } from "./settle-messages.js";
import { storedError } from "./stored-text.js";

type Names = "ack" | "abandon" | "fail" | "release" | "renew";

/** The operations that settle messages; and `renew`, which extends their leases. */
export function settleOperations<
  Key extends object,
  Message extends QueueMessage & Key,
  State extends string,
>(parts: QueueParts<Key, Message, State>): Operations<Key, Message, State, Names> {
  const { kind, shape, statements, options, announceDead } = parts;
  const settle = settleMessages(parts);

  return {
    async ack(owner, messages, call = {}) {
      checkCall(call, callInTransaction, "ack");
      const params = { owner: ownerToken(owner), processed_by: options.processedBy ?? owner };
      return settle(messages, call, { verb: "ack", statement: statements.ack, params });
    },

    async abandon(owner, messages, call = {}) {
      checkCall(call, ["maxAttempts", "delayMs", "error", "signal"], "abandon");
      const token = ownerToken(owner);
      requireList(messages, "messages");
      optionalCount(call.maxAttempts, "maxAttempts", 1, mostAttempts);
      const items = new Map<string, Abandonment<Key>>();
      for (const entry of messages) {
        const own: Abandonment<Key> = isAbandonment<Key>(entry) ? entry : { message: entry };
        const delayMs = own.delayMs ?? call.delayMs;
        if (delayMs !== undefined) requireDuration(delayMs, "delayMs");
        items.set(shape.keyText(shape.key(own.message)), { ...own, delayMs, error: own.error ?? call.error });
      }
      const keys = [...items.values()].map((item) => item.message);
      const result = await settle(keys, call, {
        verb: "abandon",
        statement: statements.abandon,
        params: { owner: token, ...defined({ max_attempts: call.maxAttempts }) },
        itemOf(key, seq) {
          const { delayMs, error, costsAttempt = true } = items.get(shape.keyText(key))!;
          const row = { seq, delay_ms: delayMs ?? null, ...storedError(error) };
          return costsAttempt ? row : { ...row, attempts: 0 };
        },
      });
      for (const key of result.dead)
        announceDead([key], items.get(shape.keyText(key))!.error ?? "The last attempt was abandoned.");
      return result;
    },

    async fail(owner, messages, error, call = {}) {
      checkCall(call, plainCall, "fail");
      const token = ownerToken(owner);
      const isAbsent = kind === "outbox" && (error === undefined || error === null);
      if (!isAbsent && typeof error !== "string")
        throw new InvalidArgumentError("fail: error must be a string that says why.");
      const params = { owner: token, ...storedError(error) };
      const result = await settle(messages, call, { verb: "fail", statement: statements.fail, params });
      announceDead(result.changed, error || "Failed without an error.");
      return { ...result, dead: result.changed };
    },

    async release(owner, messages, call = {}) {
      checkCall(call, plainCall, "release");
      const params = { owner: ownerToken(owner) };
      return settle(messages, call, { verb: "release", statement: statements.release, params });
    },

    async renew(owner, messages, leaseMs, call = {}) {
      checkCall(call, plainCall, "renew");
      requireDuration(leaseMs, "leaseMs");
      const params = { owner: ownerToken(owner), lease_ms: leaseMs };
      return settle(messages, call, { verb: "renew", statement: statements.renew, params });
    },
  };
}

const isAbandonment = <Key>(entry: Key | Abandonment<Key>): entry is Abandonment<Key> =>
  typeof entry === "object" && entry !== null && "message" in entry;
