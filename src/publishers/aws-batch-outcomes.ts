import { permanentFailure } from "../dispatch/settlement.js";
import { notSent, type Sent, sent } from "./micro-batch.js";

interface BatchAnswer {
  readonly Failed?:
    | readonly { Id?: string | undefined; Code?: string | undefined; SenderFault?: boolean | undefined }[]
    | undefined;
  readonly Successful?: readonly { Id?: string | undefined }[] | undefined;
}

/** SQS and SNS answer by entry. A fault of the sender's, such as a character that is not allowed, comes every time. */
export function batchOutcomes(count: number, answer: BatchAnswer, destination: string): readonly Sent[] {
  const accepted = new Set(answer.Successful?.map((entry) => entry.Id));
  const failed = new Map(answer.Failed?.map((entry) => [entry.Id, entry]));
  return Array.from({ length: count }, (_, index) => {
    if (accepted.has(String(index))) return sent;
    const { Code: code = "no answer", SenderFault: isOurs = false } = failed.get(String(index)) ?? {};
    const text = `${destination} did not take the message: ${code}.`;
    return notSent(isOurs ? permanentFailure(text) : new Error(text));
  });
}
