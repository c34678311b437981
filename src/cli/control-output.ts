import type { QueueKind } from "../queue/any-queue.js";
import type { Control } from "../queue/controls.js";
import { printable } from "./table.js";

/** Such as `topic "mail": paused, 12 parked, by alice since 2026-01-02T03:04:05.000Z`. */
export function controlLine(queue: QueueKind, control: Control & { readonly tenant?: string }): string {
  const { scope, name, by, at, tenant } = control;
  const what = scope === "queue" ? "all messages" : `${scope} "${printable(name!)}"`;
  const where = tenant === undefined ? "" : `tenant ${printable(tenant)}, `;
  return `${queue.padEnd(7)} ${where}${what}: ${rulesOf(control)}, ${control.parked} parked, by ${printable(by)} since ${at.toISOString()}`;
}

const rulesOf = ({ paused, perSecond }: Pick<Control, "paused" | "perSecond">): string => {
  const limit = perSecond === null ? [] : [`at most ${perSecond} per second`];
  const rules = [...(paused ? ["paused"] : []), ...limit];
  return rules.length === 0 ? "ending" : rules.join(", ");
};
