import { permanentFailure } from "../dispatch/settlement.js";
import { notSent, type Sent, sent } from "./micro-batch.js";

export interface BatchResponse {
  readonly Failed?:
    | readonly { Id?: string | undefined; Code?: string | undefined; SenderFault?: boolean | undefined }[]
    | undefined;
  readonly Successful?: readonly { Id?: string | undefined }[] | undefined;
}

/** The outcome of each entry of an SQS or SNS batch. A sender fault, such as a forbidden character, is permanent. */
export function batchOutcomes(count: number, response: BatchResponse, destination: string): readonly Sent[] {
  const accepted = new Set(response.Successful?.map((entry) => entry.Id));
  const failed = new Map(response.Failed?.map((entry) => [entry.Id, entry]));
  return Array.from({ length: count }, (_, index) => {
    if (accepted.has(String(index))) return sent;
    const { Code: code = "no outcome reported", SenderFault: isPermanent = false } =
      failed.get(String(index)) ?? {};
    const text = `${destination} refused the message: ${code}.`;
    return notSent(isPermanent ? permanentFailure(text) : new Error(text));
  });
}
