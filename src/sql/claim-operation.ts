import { sleep } from "../base/wait.js";
import { requireBatchSize, requireDuration } from "../queue/arguments.js";
import { checkCall } from "../queue/check-call.js";
import type { QueueMessage } from "../queue/message.js";
import { ownerToken } from "../queue/owner-token.js";
import type { CallOptions } from "../queue/work-store.js";
import { type AppliedControls, applyControls } from "./apply-controls.js";
import { defaults } from "./defaults.js";
import type { Rows } from "./dialect.js";
import type { Operations, QueueParts } from "./queue-parts.js";
import { reasonOf } from "./reasons.js";

/** A claim that finds only messages that wait for a limit waits for the next token: this long at most, so that a run goes on. */
const longestTokenWaitMs = 1_000;
/** At a limit of hundreds per second, each token for itself would be a round trip. */
const shortestTokenWaitMs = 50;
/** The first claims after a pause park all messages of a paused topic, batch by batch. The next claim goes on with it. */
const longestParkingMs = 5_000;

export function claimOperation<Key extends object, Message extends QueueMessage & Key, State extends string>(
  parts: QueueParts<Key, Message, State>,
): Operations<Key, Message, State, "claim"> {
  const { db, shape, statements, options, runner, announceDead } = parts;

  /** The claimed messages of the rows. The claim made the other rows dead; `onDead` is called for them. */
  const messagesOf = (rows: Rows, owner: string): Message[] => {
    const claimed: Message[] = [];
    for (const row of rows) {
      if (row.seq === null) continue;
      const verdict = row.verdict ?? "claimed";
      if (verdict === "claimed" || verdict === "controlled")
        claimed.push(shape.toMessage(row, db.dialect, owner));
      else announceDead([shape.keyOf(row)], reasonOf(verdict));
    }
    return claimed.sort((a, b) => a.seq - b.seq);
  };

  /** Applies the controls to claimed messages. If that fails they are given back: nobody would handle them under this lease. */
  const controlsOn = async (
    owner: string,
    claimed: readonly Message[],
    limit: number,
    call: CallOptions,
  ): Promise<AppliedControls> => {
    try {
      return await applyControls(parts, owner, claimed, limit, call);
    } catch (error) {
      const items = JSON.stringify(claimed.map(({ seq }) => seq));
      await runner.execute(statements.release, { owner, items }, {}).catch(() => {}); // their leases expire then
      throw error;
    }
  };

  return {
    async claim(claim) {
      checkCall(claim ?? {}, ["owner", "leaseMs", "batchSize", "signal"], "claim");
      const owner = ownerToken(claim?.owner);
      const leaseMs = claim.leaseMs ?? defaults.leaseMs;
      const limit = claim.batchSize ?? defaults.batchSize;
      requireDuration(leaseMs, "leaseMs");
      requireBatchSize(limit);
      const startedAt = performance.now();
      let hasWaited = false;
      for (;;) {
        const rows = await runner.execute(statements.claim, { owner, lease_ms: leaseMs, limit }, claim);
        const claimed = messagesOf(rows, owner);
        if (rows[0]?.verdict === "paused") return [];
        const isControlled = rows.some(({ verdict }) => verdict === "controlled");
        const applied = isControlled ? await controlsOn(owner, claimed, limit, claim) : undefined;
        const kept = applied === undefined ? claimed : claimed.filter(({ seq }) => applied.kept.has(seq));
        options.logger.debug("claim", { claimed: kept.length });
        if (kept.length > 0 || rows.length === 0) return kept;
        if (applied !== undefined && performance.now() - startedAt > longestParkingMs) return kept;
        // Where the claim made every row dead, or a control parked or freed some, there may be claimable messages after them.
        if (applied === undefined || rows[0]!.seq !== null || applied.freed > 0) continue;
        if (hasWaited || applied.waitMs === null || applied.waitMs > longestTokenWaitMs) return kept;
        hasWaited = true;
        await sleep(Math.max(applied.waitMs, shortestTokenWaitMs), claim.signal);
      }
    },
  };
}
