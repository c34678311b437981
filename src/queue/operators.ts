import type { Controls } from "./controls.js";
import type { DeadLetters } from "./dead-letters.js";
import type { OperatorReads } from "./operator-reads.js";

/** What operators do with a queue, and what they read of it. */
export interface Operators<Key> extends DeadLetters<Key>, OperatorReads<Key>, Controls {}
