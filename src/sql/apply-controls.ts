import type { QueueMessage } from "../queue/message.js";
import type { CallOptions } from "../queue/work-store.js";
import type { QueueParts } from "./queue-parts.js";

export interface AppliedControls {
  /** The row numbers of the messages that may be handled. The others are parked, at no attempt. */
  readonly kept: ReadonlySet<number>;
  /** Parked messages that it made claimable, and the part of them whose control has ended. */
  readonly freed: number;
  readonly returned: number;
  /** Controls that have ended and still have parked messages. */
  readonly ending: number;
  /** Until a limit lets the next message pass; null when none waits for a limit. */
  readonly waitMs: number | null;
}

/** Applies the queue's pauses and limits to claimed messages, and frees parked ones that may go on. See docs/decisions/0020. */
export async function applyControls<Key, Message extends QueueMessage, State extends string>(
  { statements, runner }: Pick<QueueParts<Key, Message, State>, "statements" | "runner">,
  owner: string | null,
  claimed: readonly QueueMessage[],
  limit: number,
  call: CallOptions,
): Promise<AppliedControls> {
  const items = JSON.stringify(claimed.map(({ seq }) => seq));
  const [row] = await runner.execute(statements.applyControls, { owner, items, limit }, call);
  const kept = (row?.kept as string | null | undefined) ?? "[]";
  return {
    kept: new Set(JSON.parse(kept) as number[]),
    freed: Number(row?.freed ?? 0),
    returned: Number(row?.returned ?? 0),
    ending: Number(row?.ending ?? 0),
    waitMs: row?.wait_ms === null || row?.wait_ms === undefined ? null : Number(row.wait_ms),
  };
}
