import { timingSafeEqual } from "node:crypto";

/**
 * Compares digests or signatures in a time that says nothing about where they differ. Everything that proves a caller is
 * compared here. Of a secret itself, compare the digest: its length is no secret.
 */
export const isSameDigest = (given: Uint8Array, expected: Uint8Array): boolean =>
  given.byteLength === expected.byteLength && timingSafeEqual(given, expected);
