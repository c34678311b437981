import {
  type ExecutionEnvironment,
  type FunctionSettings,
  startEnvironment,
} from "./execution-environment.js";

export interface LambdaFunction {
  /** Uses a free instance or starts one. Beyond the concurrency it waits, where Lambda would throttle. */
  invoke<Result = unknown>(event: unknown): Promise<Result>;
  /** How many instances have been started. */
  readonly started: number;
  /** Resolves when all idle instances are frozen. */
  untilFrozen(): Promise<void>;
  logs(): string;
  close(): Promise<void>;
}

export interface LambdaOptions extends Pick<FunctionSettings, "folder" | "handler" | "env"> {
  readonly timeoutMs?: number;
  readonly concurrency?: number;
  readonly node?: string;
}

export function lambdaFunction(options: LambdaOptions): LambdaFunction {
  const { concurrency = 4, timeoutMs = 30_000, node = process.execPath } = options;
  const all: ExecutionEnvironment[] = [];
  const free: ExecutionEnvironment[] = [];
  const waiting: (() => void)[] = [];
  let busy = 0;

  const take = async (): Promise<ExecutionEnvironment> => {
    while (busy >= concurrency) await new Promise<void>((resolve) => waiting.push(resolve));
    busy++;
    const kept = free.pop();
    if (kept !== undefined) return kept;
    const environment = await startEnvironment({ ...options, timeoutMs, node });
    all.push(environment);
    return environment;
  };

  const giveBack = (environment: ExecutionEnvironment): void => {
    busy--;
    if (environment.isAlive) free.push(environment);
    waiting.shift()?.();
  };

  return {
    async invoke<Result>(event: unknown) {
      const environment = await take();
      try {
        return (await environment.invoke(event)) as Result;
      } finally {
        giveBack(environment);
      }
    },
    get started() {
      return all.length;
    },
    async untilFrozen() {
      await Promise.all(free.map((environment) => environment.untilFrozen()));
    },
    logs: () => all.map((environment) => environment.logs()).join("\n"),
    async close() {
      await Promise.all(all.map((environment) => environment.close()));
    },
  };
}
