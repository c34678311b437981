import { createHash } from "node:crypto";

/** A name of fixed length for a key that a destination cannot take as it is. Equal keys have equal names. */
export const hashedKey = (key: string): string => createHash("sha256").update(key).digest("hex");
