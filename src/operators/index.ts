export type * from "../queue/operators.js";
export { messageTrace, type TraceStep, type TraceStores } from "./operator-reads.js";
export { operatorsOf } from "./operators-of.js";
export {
  archiveDead,
  discardDead,
  type ReplayDeadOptions,
  type ReplayDeadResult,
  replayDead,
} from "./replay-dead.js";
