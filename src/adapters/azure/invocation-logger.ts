import { AsyncLocalStorage } from "node:async_hooks";
import type { InvocationContext } from "@azure/functions";
import type { Logger } from "../../base/logger.js";
import { jsonLogger, type LogLevel } from "../../telemetry/json-logger.js";

const current = new AsyncLocalStorage<{ context: InvocationContext | undefined }>();

/** What is logged by `work` belongs to this invocation, until it has ended. */
export function inInvocation<T>(context: InvocationContext, work: () => Promise<T>): Promise<T> {
  const invocation: { context: InvocationContext | undefined } = { context };
  return current.run(invocation, work).finally(() => {
    invocation.context = undefined; // the host complains of lines that come later
  });
}

/**
 * Lines of JSON through the invocation's own log, because Application Insights keeps their level and which invocation
 * they belong to; what it finds on the standard output has neither.
 */
export const invocationLogger = (level: LogLevel): Logger =>
  jsonLogger(level, (line, at) => {
    const context = current.getStore()?.context;
    if (context === undefined) process.stdout.write(`${line}\n`);
    else context[at](line);
  });
