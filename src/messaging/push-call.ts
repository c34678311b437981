import { currentScope, requireScope } from "../middleware/current-transaction.js";
import { transaction } from "../middleware/transaction-middleware.js";
import { validated } from "../queue/validated.js";
import type { SqlExecutor } from "../sql/driver.js";
import type { PushCallDefinition } from "./define-messages.js";
import { checkOptions, type Sender } from "./sender.js";
import { serialisePayload } from "./serialise-payload.js";
import type { ServiceParts } from "./service-parts.js";
import type { SendOptions } from "./service-types.js";

type Call = (input: unknown, context: { readonly tx: SqlExecutor }) => unknown;

/** Wraps a function: its call and the message about it are in one transaction. */
export const wrapPushCall =
  (parts: ServiceParts, sender: Sender, endpoint: string) =>
  (destination: string, call: Call): ((input: unknown, options?: SendOptions) => Promise<unknown>) => {
    const definition = parts.messages.get(endpoint) as PushCallDefinition;
    const { outboxDb, settings, sentIn, wake } = parts;
    sender.requireDestination(destination);
    const own = transaction(outboxDb);

    const record = async (input: unknown, tx: SqlExecutor, options: SendOptions): Promise<unknown> => {
      const inputText = serialisePayload(input, `The input of "${endpoint}"`);
      const taken = await validated(definition.input, JSON.parse(inputText), `The input of "${endpoint}"`);
      const output = await call(taken, { tx });
      const payload = { input: JSON.parse(inputText) as unknown, output };
      const text = await sender.payloadText(endpoint, definition, payload);
      await sender.enqueue({ destination, endpoint, messageType: "PushCall", text }, { ...options, tx });
      return output;
    };

    return async (input, options = {}) => {
      checkOptions(options, settings.inboxRetentionMs);
      const scope = currentScope();
      const joined = options.tx ?? (scope?.db === outboxDb ? scope.tx : undefined);
      if (joined !== undefined) return record(input, joined, options);
      let tx: SqlExecutor | undefined;
      const output = await own.run(undefined, () => {
        tx = requireScope("outbox").tx;
        return record(input, tx, options);
      });
      if (tx !== undefined && sentIn.has(tx)) wake();
      return output;
    };
  };
