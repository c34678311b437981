export type * from "../queue/controls.js";
export type * from "../queue/dead-letters.js";
export type * from "../queue/operator-reads.js";
export type { Operators } from "../queue/operators.js";
export { messageWay, type WayStep, type WayStores } from "./message-way.js";
export { operatorsOf } from "./operators-of.js";
export {
  archiveDead,
  discardDead,
  type ReplayDeadOptions,
  type ReplayDeadResult,
  replayDead,
} from "./replay-dead.js";
