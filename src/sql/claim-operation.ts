import { requireBatchSize, requireDuration } from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import { ownerToken } from "../queue/owner-token.js";
import { defaults } from "./defaults.js";
import type { Rows } from "./dialect.js";
import type { Operations, QueueParts } from "./queue-parts.js";
import { reasonOf } from "./reasons.js";

export function claimOperation<Key extends object, Message extends QueueMessage & Key, State extends string>(
  parts: QueueParts<Key, Message, State>,
): Operations<Key, Message, State, "claim"> {
  const { db, shape, statements, options, runner, announceDead } = parts;

  /** The claimed messages of the rows. The claim made the other rows dead; `onDead` is called for them. */
  const messagesOf = (rows: Rows, owner: string): Message[] => {
    const claimed: Message[] = [];
    for (const row of rows) {
      const verdict = row.verdict ?? "claimed";
      if (verdict === "claimed") claimed.push(shape.toMessage(row, db.dialect, owner));
      else announceDead([shape.keyOf(row)], reasonOf(verdict));
    }
    return claimed.sort((a, b) => a.seq - b.seq);
  };

  return {
    async claim(claim) {
      const owner = ownerToken(claim?.owner);
      const leaseMs = claim.leaseMs ?? defaults.leaseMs;
      const limit = claim.batchSize ?? defaults.batchSize;
      requireDuration(leaseMs, "leaseMs");
      requireBatchSize(limit);
      for (;;) {
        const rows = await runner.execute(statements.claim, { owner, lease_ms: leaseMs, limit }, claim);
        const claimed = messagesOf(rows, owner);
        options.logger.debug("claim", { claimed: claimed.length });
        // Where the claim made every row dead, there may be claimable messages after them.
        if (claimed.length > 0 || rows.length === 0) return claimed;
      }
    },
  };
}
