import { InvalidArgumentError } from "../errors.js";
import { databaseKindOf } from "./database-url.js";
import { filled } from "./environment.js";
import type { SecretReference } from "./secret-reference.js";

/** How a dispatcher is woken on AWS. Without either setting only the schedule starts it. */
export interface AwsSettings {
  /** Name or ARN of the dispatch function. */
  readonly dispatchFunction: string | undefined;
  /** URL of a queue that triggers the dispatch function. */
  readonly wakeQueueUrl: string | undefined;
}

export const readAwsSettings = (env: NodeJS.ProcessEnv = process.env): AwsSettings =>
  readWakeSettings(env, "ONCEBOX_DISPATCH_FUNCTION", "ONCEBOX_WAKE_QUEUE_URL");

/** How the dispatcher of a service's messages is woken. It is another function than the app's. */
export const readAwsMessageSettings = (env: NodeJS.ProcessEnv = process.env): AwsSettings =>
  readWakeSettings(env, "ONCEBOX_MESSAGE_DISPATCH_FUNCTION", "ONCEBOX_MESSAGE_WAKE_QUEUE_URL");

function readWakeSettings(env: NodeJS.ProcessEnv, functionName: string, queueName: string): AwsSettings {
  const dispatchFunction = filled(env, functionName);
  const wakeQueueUrl = filled(env, queueName);
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

/** The database's owner, who migrates it. No other function may read this. */
export interface OwnerSettings {
  /** The database's URL without a user. */
  readonly url: string;
  readonly database: "postgres" | "sqlserver";
  /** A JSON object with `username` and `password`, as RDS keeps its master user's. */
  readonly secret: Extract<SecretReference, { from: "aws-secrets-manager" }>;
  /** The secret with the URL of the tenants' catalogue, where the deployment has one. */
  readonly catalogue: string | undefined;
}

export function readOwnerSettings(env: NodeJS.ProcessEnv = process.env): OwnerSettings {
  const url = filled(env, "ONCEBOX_OWNER_URL");
  const id = filled(env, "ONCEBOX_OWNER_SECRET");
  if (url === undefined || id === undefined) {
    throw new InvalidArgumentError(
      "ONCEBOX_OWNER_URL (the database's URL without a user) and ONCEBOX_OWNER_SECRET (the secret with its owner) must be set.",
    );
  }
  const kind = databaseKindOf(url);
  if ((kind !== "postgres" && kind !== "mssql") || new URL(url).username !== "") {
    throw new InvalidArgumentError(
      "ONCEBOX_OWNER_URL must be postgres://host/database or mssql://host/database, without user and password.",
    );
  }
  return {
    url,
    database: kind === "postgres" ? "postgres" : "sqlserver",
    secret: { from: "aws-secrets-manager", id },
    catalogue: filled(env, "ONCEBOX_CATALOGUE_SECRET"),
  };
}

/** The URL with a user. Passwords that a service makes have characters that a URL cannot. */
export function urlOfUser(url: string, username: string, password: string): string {
  const target = new URL(url);
  target.username = encodeURIComponent(username);
  target.password = encodeURIComponent(password);
  return target.href;
}
