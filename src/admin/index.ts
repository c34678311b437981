export { type AdminSettings, adminDefaults } from "../http/admin-access.js";
export {
  archiveDead,
  discardDead,
  type ReplayDeadOptions,
  type ReplayDeadResult,
  replayDead,
} from "../operators/bulk-operations.js";
export { messageTrace, type TraceStep, type TraceStores } from "../operators/operator-reads.js";
export { operatorsOf } from "../operators/operators-of.js";
export type * from "../queue/operators.js";
export {
  type Admin,
  type AdminOptions,
  type AdminStores,
  type AdminTenants,
  createAdmin,
} from "./create-admin.js";
