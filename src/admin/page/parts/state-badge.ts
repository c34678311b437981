import { element } from "../dom.js";

/** The sign says the same as the colour. */
const looks: Readonly<Record<string, readonly [kind: string, sign: string, label: string]>> = {
  seen: ["waiting", "○", "Seen"],
  waiting: ["waiting", "○", "Waiting"],
  retrying: ["waiting", "↻", "Retrying"],
  running: ["running", "◐", "Running"],
  paused: ["held", "‖", "Paused"],
  done: ["done", "✓", "Done"],
  dead: ["dead", "✕", "Dead"],
  archived: ["held", "▤", "Archived"],
  replaced: ["held", "⇄", "Replaced"],
  limited: ["held", "⇣", "Limited"],
  ended: ["waiting", "○", "Ended"],
  active: ["done", "✓", "Active"],
  quarantined: ["dead", "✕", "Quarantined"],
  unreachable: ["dead", "✕", "Unreachable"],
};

export function stateBadge(state: string): HTMLElement {
  const [kind, sign, label] = looks[state] ?? ["waiting", "○", state];
  return element(
    "span",
    { class: `badge ${kind}` },
    element("span", { "aria-hidden": "true" }, sign),
    ` ${label}`,
  );
}

export const stateLabel = (state: string): string => looks[state]?.[2] ?? state;
