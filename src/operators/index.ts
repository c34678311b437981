export type * from "../queue/operators.js";
export {
  archiveDead,
  discardDead,
  type ReplayDeadOptions,
  type ReplayDeadResult,
  replayDead,
} from "./bulk-operations.js";
export { messageTrace, type TraceStep, type TraceStores } from "./operator-reads.js";
export { operatorsOf } from "./operators-of.js";
