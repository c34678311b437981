import { AsyncLocalStorage } from "node:async_hooks";
import type { InvocationContext } from "@azure/functions";
import type { Logger } from "../../base/logger.js";
import { jsonLogger, type LogLevel } from "../../telemetry/json-logger.js";

const current = new AsyncLocalStorage<{ context: InvocationContext | undefined }>();

/** Runs `work` so that its log lines belong to this invocation, until the invocation ends. */
export function inInvocation<T>(context: InvocationContext, work: () => Promise<T>): Promise<T> {
  const invocation: { context: InvocationContext | undefined } = { context };
  return current.run(invocation, work).finally(() => {
    invocation.context = undefined; // the host warns about later lines
  });
}

/**
 * Writes lines of JSON to the invocation's own log, so that Application Insights knows their level and invocation. Lines
 * on the standard output have neither.
 */
export const invocationLogger = (level: LogLevel): Logger =>
  jsonLogger(level, (line, at) => {
    const context = current.getStore()?.context;
    if (context === undefined) process.stdout.write(`${line}\n`);
    else context[at](line);
  });
