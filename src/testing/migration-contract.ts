import type { ContractHarness } from "./harness.js";

export function migrationContract(_harness: ContractHarness): void {}
