/** The error when the lock of a partition key cannot be had: sp_getapplock returns a number instead of raising 1205 or 1222. */
export const deadlockedKeys = 51205;
