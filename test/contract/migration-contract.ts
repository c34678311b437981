import type { ContractHarness } from "./harness.js";
import { deploymentContract } from "./migration/deployment.js";
import { namesContract } from "./migration/names.js";
import { viewsContract } from "./migration/views.js";

/** How the schema comes to be (OBX-091 … OBX-095, IBX-114 … IBX-117, MID-01), on any database. */
export function migrationContract(harness: ContractHarness): void {
  deploymentContract(harness);
  namesContract(harness);
  viewsContract(harness);
}
