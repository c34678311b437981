import { describe, expectTypeOf, it } from "vitest";
import type * as wire from "../../../src/admin/page/wire.js";
import type { PhasedStep } from "../../../src/admin/phases.js";
import type { TenantReport } from "../../../src/admin/reports.js";
import type { InboxKey, InboxMessage, InboxState, OutboxMessage, Phase } from "../../../src/queue/message.js";
import type {
  Activity,
  BlockedPartition,
  Control,
  DeadGroup,
  FailedAttempt,
  Operation,
  UnhandledTopic,
} from "../../../src/queue/operators.js";
import type { QueueStats, Settlement } from "../../../src/queue/work-store.js";

/** What a value is after JSON. */
type Json<T> = T extends Date
  ? string
  : T extends Uint8Array
    ? never
    : T extends readonly (infer One)[]
      ? readonly Json<One>[]
      : T extends object
        ? { [Name in keyof T]: Json<T[Name]> }
        : T;

describe("what the admin page reads", () => {
  it("ADD-02 is what the API returns", () => {
    expectTypeOf<Json<QueueStats<InboxState>>>().toExtend<wire.Stats>();
    expectTypeOf<Json<Activity>>().toExtend<wire.Activity>();
    type Phased<Message> = Message & { readonly phase: Phase };
    expectTypeOf<
      Json<Phased<Omit<InboxMessage, "hash" | "payload" | "headers">>>
    >().toExtend<wire.ListedMessage>();
    expectTypeOf<Json<Phased<Omit<OutboxMessage, "payload" | "headers">>>>().toExtend<wire.ListedMessage>();
    expectTypeOf<Json<FailedAttempt>>().toExtend<wire.Attempt>();
    expectTypeOf<Json<DeadGroup<InboxKey>>>().toExtend<wire.DeadGroup>();
    expectTypeOf<Json<Operation>>().toExtend<wire.Operation>();
    expectTypeOf<Json<Settlement<InboxKey>>>().toExtend<wire.Settlement>();
    expectTypeOf<Json<BlockedPartition<InboxKey>>>().toExtend<wire.BlockedPartition>();
    expectTypeOf<Json<Control>>().toExtend<wire.Control>();
    expectTypeOf<Json<UnhandledTopic>>().toExtend<wire.UnhandledTopic>();
    expectTypeOf<Json<PhasedStep>>().toExtend<wire.TraceStep>();
    expectTypeOf<TenantReport["state"]>().toExtend<wire.Tenant["state"]>();
  });
});
