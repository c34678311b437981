import type { ContractHarness } from "./harness.js";

export function inboxContract(_harness: ContractHarness): void {}
