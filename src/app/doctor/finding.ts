import type { WrongSetting } from "../../sql/inspection.js";

/** What `doctor` compares. */
export const checks = ["schema", "permissions", "settings", "clock", "retention"] as const;

/** Something that `doctor` found. */
export interface Finding {
  readonly check: (typeof checks)[number];
  /** A note says what could be better, or what could not be checked. */
  readonly level: "problem" | "note";
  readonly message: string;
  /** A command or a statement that puts it right; null where there is none. */
  readonly run: string | null;
}

export const settingFinding = ({ message, run, tolerable }: WrongSetting): Finding => ({
  check: "settings",
  level: tolerable ? "note" : "problem",
  message,
  run,
});
