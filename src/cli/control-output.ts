import type { QueueKind } from "../queue/any-queue.js";
import type { Control } from "../queue/controls.js";
import { printable } from "./table.js";

/** A control for JSON. What claims have set aside so far for a pause is not what waits for it: the phases of the queue tell that. */
export const shownControl = ({ parked, ...control }: Control): object =>
  control.paused ? control : { ...control, parked };

/**
 * Such as `topic "mail": paused, by alice since 2026-01-02T03:04:05.000Z`. It has no number of a pause's messages: `parked` counts
 * those that claims have set aside so far, not those that wait.
 */
export function controlLine(queue: QueueKind, control: Control & { readonly tenant?: string }): string {
  const { scope, name, by, at, tenant } = control;
  const what = scope === "queue" ? "all messages" : `${scope} "${printable(name!)}"`;
  const where = tenant === undefined ? "" : `tenant ${printable(tenant)}, `;
  return `${queue.padEnd(7)} ${where}${what}: ${rulesOf(control)}, by ${printable(by)} since ${at.toISOString()}`;
}

const rulesOf = ({ paused, perSecond, parked }: Control): string => {
  const held = paused || parked === 0 ? "" : ` (${parked} parked)`;
  const limit = perSecond === null ? [] : [`at most ${perSecond} per second${held}`];
  const rules = [...(paused ? ["paused"] : []), ...limit];
  return rules.length === 0 ? "ending" : rules.join(", ");
};
