import { InvalidArgumentError } from "../errors.js";

/** How a dispatcher is woken on AWS. Without either setting only the schedule starts it. */
export interface AwsSettings {
  /** Name or ARN of the dispatch function. */
  readonly dispatchFunction: string | undefined;
  /** URL of a queue that triggers the dispatch function. */
  readonly wakeQueueUrl: string | undefined;
}

export const readAwsSettings = (env: NodeJS.ProcessEnv = process.env): AwsSettings =>
  readSettings(env, "ONCEBOX_DISPATCH_FUNCTION", "ONCEBOX_WAKE_QUEUE_URL");

/** How the dispatcher of a service's messages is woken. It is another function than the app's. */
export const readAwsMessageSettings = (env: NodeJS.ProcessEnv = process.env): AwsSettings =>
  readSettings(env, "ONCEBOX_MESSAGE_DISPATCH_FUNCTION", "ONCEBOX_MESSAGE_WAKE_QUEUE_URL");

function readSettings(env: NodeJS.ProcessEnv, functionName: string, queueName: string): AwsSettings {
  const dispatchFunction = env[functionName]?.trim() || undefined;
  const wakeQueueUrl = env[queueName]?.trim() || undefined;
  if (dispatchFunction !== undefined && wakeQueueUrl !== undefined) {
    throw new InvalidArgumentError(
      `${functionName} and ${queueName} both name what wakes the dispatcher. Set only one of them.`,
    );
  }
  if (wakeQueueUrl !== undefined && !/^https?:\/\//.test(wakeQueueUrl)) {
    throw new InvalidArgumentError(`${queueName} must be the queue's URL: https://sqs.….amazonaws.com/….`);
  }
  return { dispatchFunction, wakeQueueUrl };
}
