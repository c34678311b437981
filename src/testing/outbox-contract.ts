import type { ContractHarness } from "./harness.js";

export function outboxContract(_harness: ContractHarness): void {}
