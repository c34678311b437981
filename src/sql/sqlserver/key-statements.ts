import type { KeyStatements } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { callProcedure } from "./call-procedure.js";
import { type ParameterName, signatures } from "./signatures.js";

export function keyStatements(n: QueueNames): KeyStatements {
  const given_now = "@now";
  const changeKey = (change: string, parameters: readonly ParameterName[]) =>
    callProcedure(n, `${change} key`, "ChangeKey", parameters, { given_now, change: `'${change}'` });
  const finished = signatures.ChangeKey.filter((one) => one !== "lease_ms");
  return {
    tryBegin: callProcedure(n, "try begin", "TryBegin", signatures.TryBegin, { given_now }),
    renewKey: changeKey("renew", signatures.ChangeKey),
    finishKey: changeKey("finish", finished),
    releaseKey: changeKey("release", finished),
    inspectKey: callProcedure(n, "inspect key", "InspectKey", signatures.InspectKey),
    purgeKeys: callProcedure(n, "purge keys", "PurgeKeys", signatures.PurgeKeys),
  };
}
