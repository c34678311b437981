import { InvalidOperationError } from "../errors.js";

export interface ServiceLife {
  /** Throws after `end`. */
  requireOpen(): void;
  end(): void;
}

/** After `close` the transports are closed, and what is sent would fail and use up its retries. */
export function serviceLife(serviceId: string): ServiceLife {
  let isClosed = false;
  return {
    requireOpen() {
      if (isClosed) throw new InvalidOperationError(`The service "${serviceId}" is closed. Create it anew.`);
    },
    end() {
      isClosed = true;
    },
  };
}
