import type { ContractHarness } from "./harness.js";
import { deadLettersContract } from "./middleware/dead-letters.js";
import { flowContract } from "./middleware/flow.js";
import { httpContract } from "./middleware/http.js";

/**
 * What transaction, inbox and outbox middleware must do on any database (MID-01 … MID-11).
 *
 * @example
 * middlewareContract({ name: "MyDatabase", open: () => openTestDatabase() });
 */
export function middlewareContract(harness: ContractHarness): void {
  flowContract(harness);
  httpContract(harness);
  deadLettersContract(harness);
}
