import type { RefusalName } from "./scheme.js";

/** The statuses of refused requests. */
export const refusalStatuses = {
  "bad request": 400,
  unauthorized: 401,
  "not found": 404,
  "method not allowed": 405,
  "too slow": 408,
  "too large": 413,
  "unsupported media type": 415,
  unavailable: 503,
} as const satisfies Record<RefusalName, number>;
