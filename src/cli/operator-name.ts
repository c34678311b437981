import { userInfo } from "node:os";
import { isOperatorName, operatorRule } from "../admin/operator-name.js";
import { text, UsageError, type Values } from "./command.js";

/** Who does it, for the record: `--by`, else the user of this process. */
export function operatorName(values: Values): string {
  const by = text(values, "by")?.trim() ?? userName();
  if (!isOperatorName(by)) throw new UsageError(`--by ${operatorRule}.`);
  return by;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    throw new UsageError("The user of this process has no name. Say with --by NAME who does it."); // as in some containers
  }
}
