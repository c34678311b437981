import { refuseUnknown, requireDuration } from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import type { Operations, QueueParts } from "./queue-parts.js";
import { settleMessages } from "./settle-messages.js";

/** `replay` of dead messages by their keys. That of operators, which is recorded, is in src/operators. */
export function replayOperation<Key extends object, Message extends QueueMessage & Key, State extends string>(
  parts: QueueParts<Key, Message, State>,
): Operations<Key, Message, State, "replay"> {
  const settle = settleMessages(parts);
  return {
    async replay(messages, call = {}) {
      refuseUnknown(call, ["ttlMs", "signal"], "replay");
      const { ttlMs, signal } = call;
      if (ttlMs !== undefined) requireDuration(ttlMs, "ttlMs");
      const params = { ttl_ms: ttlMs ?? null };
      const statement = parts.statements.replay;
      const result = await settle(messages, { signal }, { verb: "replay", statement, params });
      if (result.changed.length > 0) parts.options.logger.info("replay", { replayed: result.changed.length });
      return result;
    },
  };
}
