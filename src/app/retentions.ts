import { defined } from "../base/defined.js";
import type { PurgeWithinOptions } from "../queue/maintenance.js";
import type { AppContext } from "./app-context.js";

/** How long an app keeps what the clean-up deletes. The environment wins. */
export const retentionsOf = ({
  definition: { retentionMs, deadRetentionMs, operationRetentionMs },
  environment,
}: Pick<AppContext, "definition" | "environment">): PurgeWithinOptions =>
  defined({
    retentionMs,
    deadRetentionMs: environment.deadRetentionMs ?? deadRetentionMs,
    operationRetentionMs,
  });
