import { InvalidArgumentError } from "../errors.js";

/** How a dispatcher is woken on AWS. Without either setting only the schedule starts it. */
export interface AwsSettings {
  /** Name or ARN of the dispatch function. */
  readonly dispatchFunction: string | undefined;
  /** URL of a queue that triggers the dispatch function. */
  readonly wakeQueueUrl: string | undefined;
}

export function readAwsSettings(env: NodeJS.ProcessEnv = process.env): AwsSettings {
  const dispatchFunction = env.ONCEBOX_DISPATCH_FUNCTION?.trim() || undefined;
  const wakeQueueUrl = env.ONCEBOX_WAKE_QUEUE_URL?.trim() || undefined;
  if (dispatchFunction !== undefined && wakeQueueUrl !== undefined) {
    throw new InvalidArgumentError(
      "ONCEBOX_DISPATCH_FUNCTION and ONCEBOX_WAKE_QUEUE_URL both name what wakes the dispatcher. Set only one of them.",
    );
  }
  if (wakeQueueUrl !== undefined && !/^https?:\/\//.test(wakeQueueUrl)) {
    throw new InvalidArgumentError(
      "ONCEBOX_WAKE_QUEUE_URL must be the queue's URL: https://sqs.….amazonaws.com/….",
    );
  }
  return { dispatchFunction, wakeQueueUrl };
}
