import type { KeyStatements } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { callProcedure } from "./call-procedure.js";
import { signatures } from "./signatures.js";

export function keyStatements(n: QueueNames): KeyStatements {
  const given_now = "@now";
  return {
    tryBegin: callProcedure(n, "try begin", "TryBegin", signatures.TryBegin, { given_now }),
    renewKey: callProcedure(n, "renew key", "RenewKey", signatures.RenewKey, { given_now }),
    finishKey: callProcedure(n, "finish key", "FinishKey", signatures.FinishKey, { given_now }),
    releaseKey: callProcedure(n, "release key", "ReleaseKey", signatures.ReleaseKey, { given_now }),
    inspectKey: callProcedure(n, "inspect key", "InspectKey", signatures.InspectKey),
    purgeKeys: callProcedure(n, "purge keys", "PurgeKeys", signatures.PurgeKeys),
  };
}
