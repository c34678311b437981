import type { QueueKind } from "../queue/any-queue.js";
import { inboxPhases, phases } from "../queue/phase.js";
import type { QueueStats } from "../queue/work-store.js";

/** Such as `inbox   waiting 3  retrying 1  running 2  paused 0  done 40  dead 5`. The phases of the inbox alone are shown where there are such messages. */
export function phaseLine(queue: QueueKind, stats: Pick<QueueStats<string>, "phases">): string {
  const shown = phases.filter((phase) => !inboxPhases.includes(phase) || stats.phases[phase] > 0);
  return `${queue.padEnd(7)} ${shown.map((phase) => `${phase} ${stats.phases[phase]}`).join("  ")}`;
}
