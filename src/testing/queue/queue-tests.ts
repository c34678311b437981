import { attemptTests } from "../dead-letters/attempts.js";
import { discardTests } from "../dead-letters/discard.js";
import { deadGroupTests } from "../dead-letters/groups.js";
import { replayDeadTests } from "../dead-letters/replay.js";
import type { TestDatabase } from "../harness.js";
import { claimTests } from "./claim.js";
import { cleanUpTests } from "./clean-up.js";
import { concurrencyTests } from "./concurrency.js";
import { endedTransactionTests } from "./ended-transaction.js";
import { enqueueTests } from "./enqueue.js";
import { faultTests } from "./faults.js";
import { leaseTests } from "./lease.js";
import { observabilityTests } from "./observability.js";
import { operationsTests } from "./operations.js";
import { optionTests } from "./options.js";
import { permissionTests } from "./permissions.js";
import { retryTests } from "./retry.js";
import type { QueueKind } from "./set-up.js";
import { settleTests } from "./settle.js";
import { createQueueContext } from "./support.js";
import { transactionTests } from "./transaction.js";

/** What inbox and outbox have in common, proved for one of them. */
export function queueTests(kind: QueueKind, database: () => TestDatabase): void {
  const context = createQueueContext(kind, database);
  optionTests(context);
  enqueueTests(context);
  transactionTests(context);
  endedTransactionTests(context);
  claimTests(context);
  settleTests(context);
  leaseTests(context);
  retryTests(context);
  faultTests(context);
  cleanUpTests(context);
  operationsTests(context);
  attemptTests(context);
  deadGroupTests(context);
  discardTests(context);
  replayDeadTests(context);
  observabilityTests(context);
  concurrencyTests(context);
  permissionTests(context);
}
