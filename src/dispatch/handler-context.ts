import type { Telemetry } from "../base/tracing.js";
import type { HandlerContext } from "./handlers.js";

/**
 * What a handler gets beside its message. The signal is made when it is first read: an AbortController costs more than
 * all the rest of a fast message, and most handlers never read it. It is an own property, so that `{ ...context }` copies
 * it. All contexts have one getter, because an object literal with a getter would get a hidden class of its own, which
 * keeps the message alive until a full collection.
 */
class LazyContext<Tx, Of> {
  declare readonly signal: AbortSignal;
  readonly tx: Tx | undefined;
  readonly store: string;
  readonly telemetry: Telemetry | undefined;
  readonly #of: Of;
  readonly #signalOf: (of: Of) => AbortSignal;

  constructor(
    store: string,
    tx: Tx | undefined,
    of: Of,
    signalOf: (of: Of) => AbortSignal,
    telemetry: Telemetry | undefined,
  ) {
    this.tx = tx;
    this.store = store;
    this.telemetry = telemetry;
    this.#of = of;
    this.#signalOf = signalOf;
    Object.defineProperty(this, "signal", LazyContext.#signal);
  }

  static readonly #signal = {
    enumerable: true,
    get(this: LazyContext<unknown, unknown>): AbortSignal {
      return this.#signalOf(this.#of);
    },
  };
}

export const handlerContext = <Tx, Of>(
  store: string,
  tx: Tx | undefined,
  of: Of,
  signalOf: (of: Of) => AbortSignal,
  telemetry?: Telemetry,
): HandlerContext<Tx> => new LazyContext(store, tx, of, signalOf, telemetry);
