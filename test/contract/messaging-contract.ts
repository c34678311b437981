import type { ContractHarness } from "./harness.js";
import { messagingManagementContract } from "./messaging/management.js";
import { receivingContract } from "./messaging/receiving.js";
import { responsesContract } from "./messaging/responses.js";
import { sendingContract } from "./messaging/sending.js";

/**
 * What services must do on any database (MSG-01 … MSG-22, except the wire format and the transports).
 *
 * @example
 * messagingContract({ name: "MyDatabase", open: () => openTestDatabase() });
 */
export function messagingContract(harness: ContractHarness): void {
  sendingContract(harness);
  receivingContract(harness);
  responsesContract(harness);
  messagingManagementContract(harness);
}
