export { adminDefaults } from "../http/admin-access.js";
export {
  archiveDead,
  discardDead,
  type ReplayDeadOptions,
  type ReplayDeadResult,
  replayDead,
} from "../operators/bulk-operations.js";
export { messageTrace, type TraceStep } from "../operators/operator-reads.js";
export { operatorsOf } from "../operators/operators-of.js";
export type {
  Activity,
  ActivityBucket,
  BlockedPartition,
  Control,
  Controls,
  CorrelatedMessage,
  DeadGroup,
  DeadLetters,
  Limit,
  Operation,
  OperatorReads,
  Operators,
  UnhandledTopic,
} from "../queue/operators.js";
export { type Admin, type AdminOptions, createAdmin } from "./create-admin.js";
