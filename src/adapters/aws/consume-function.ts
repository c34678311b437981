import type { SQSBatchResponse, SQSEvent } from "aws-lambda";
import type { AppDefinition } from "../../app/app-definition.js";
import { consumeJob } from "../../app/consume-job.js";
import { jobFunction } from "./job-function.js";
import { sqsConsumer } from "./middleware-sqs.js";
import type { JobFunction } from "./timed-function.js";

/** Gives the messages of an SQS queue to the app's consumer. The trigger needs `ReportBatchItemFailures`. */
export function consumeFunction(definition: AppDefinition): JobFunction<SQSBatchResponse> {
  return jobFunction(definition, (app) => {
    const consume = sqsConsumer({ handle: consumeJob(app), logger: app.logger });
    return (budget, event) => consume(event as SQSEvent, budget);
  });
}
