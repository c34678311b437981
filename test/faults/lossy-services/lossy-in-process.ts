import type { Transport, TransportResponse } from "../../../src/messaging/index.js";
import { type Fault, faults } from "../../support/lossy/decide-fault.js";
import type { Line } from "../../support/lossy/line.js";

/** A direct call cannot be cut in the middle. */
const cuts: readonly Fault[] = ["cut-request", "cut-answer"];
export const inProcessFaults: readonly Fault[] = faults.filter((fault) => !cuts.includes(fault));

/** Does to direct calls what the proxy does to requests. */
export function lossyInProcess(inner: Transport, line: Line): Transport {
  return {
    ...inner,
    send: (message, destination) =>
      new Promise((resolve, reject) => {
        const noPart = () => Promise.reject(new Error("A direct call has no parts."));
        line.run<TransportResponse>({
          // a call that is on its way knows nothing of its sender, who may have given up
          forward: () => inner.send(message, destination, { signal: new AbortController().signal }),
          forwardPart: noPart,
          answer: resolve,
          answerPart: noPart,
          cut: () => reject(new Error("The call was cut off.")),
        });
      }),
  };
}
