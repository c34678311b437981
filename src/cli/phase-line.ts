import type { QueueKind } from "../queue/any-queue.js";
import { phases } from "../queue/phase.js";
import type { QueueStats } from "../queue/work-store.js";

/** Such as `inbox   waiting 3  retrying 1  running 2  paused 0  done 40  dead 5`. Few inboxes have messages that are only seen. */
export function phaseLine(queue: QueueKind, stats: Pick<QueueStats<string>, "phases">): string {
  const shown = phases.filter((phase) => phase !== "seen" || stats.phases.seen > 0);
  return `${queue.padEnd(7)} ${shown.map((phase) => `${phase} ${stats.phases[phase]}`).join("  ")}`;
}
