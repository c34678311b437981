import {
  createDispatcher,
  createInbox,
  createOutbox,
  type Database,
  type DispatchResult,
  timeBudget,
} from "../../src/index.js";

export const handlerKinds = ["plain", "transactional"] as const;
export type HandlerKind = (typeof handlerKinds)[number];

/** Drains an inbox whose handler returns two messages for each of its own: one with a partition key, one with a natural key. */
export async function drainReturning(
  db: Database,
  {
    schema,
    kind,
    clock,
  }: { readonly schema: string; readonly kind: HandlerKind; readonly clock?: () => Date },
): Promise<DispatchResult> {
  const options = { ...(schema === "" ? {} : { schema }), ...(clock === undefined ? {} : { clock }) };
  const inbox = createInbox(db, options);
  const outbox = createOutbox(db, options);
  const handle = async ({ messageId }: { readonly messageId: string }) => [
    { topic: "first", payload: messageId, partitionKey: "p" },
    { topic: "second", payload: messageId, naturalKey: messageId },
  ];
  const dispatcher = createDispatcher({
    store: inbox,
    outbox,
    handlers: { t: kind === "plain" ? handle : { transactional: true, handle } },
    concurrency: kind === "plain" ? 10 : 1,
  });
  return dispatcher.run(inbox, timeBudget(30_000));
}
