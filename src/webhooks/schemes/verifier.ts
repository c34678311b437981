import type { Delivery } from "./delivery.js";
import type { Refusal } from "./refusal.js";
import type { SecretKeysOptions } from "./secret-keys.js";

/** Resolves to undefined when the delivery is genuine. Rejects when the secrets cannot be fetched. */
export interface Verifier {
  (delivery: Delivery): Promise<Refusal | undefined>;
  /** Fetches the secrets, where they are not known yet. */
  prepare(head: Delivery): Promise<unknown>;
}

export type SecretSettings = Omit<SecretKeysOptions<never>, "toKey">;

export interface TimeSettings {
  readonly clock: () => Date;
  readonly pastMs: number;
  readonly futureMs: number;
}
