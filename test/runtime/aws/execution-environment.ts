import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { existsSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

const runtimeFile = (name: string) => fileURLToPath(new URL(`lambda-runtime/${name}`, import.meta.url));
const interfaceClient = runtimeFile("node_modules/aws-lambda-ric/index.mjs");

export interface FunctionSettings {
  /** The folder of the bundles: LAMBDA_TASK_ROOT. */
  readonly folder: string;
  /** `webhook.handler` */
  readonly handler: string;
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Path of the Node binary. */
  readonly node: string;
}

/** The error that the function threw, or Lambda's error when it killed the function. */
export class FunctionError extends Error {
  override readonly name = "FunctionError";
}

interface Invocation {
  readonly id: string;
  readonly event: unknown;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** One instance of a function: a process under Amazon's runtime interface client. It gets one event at a time. */
export interface ExecutionEnvironment {
  readonly pid: number;
  readonly isAlive: boolean;
  invoke(event: unknown): Promise<unknown>;
  /** Resolves when the process has asked for the next event. */
  untilFrozen(): Promise<void>;
  /** The process's output so far. */
  logs(): string;
  close(): Promise<void>;
}

/**
 * Lambda's side of the Runtime API for one process. Like Lambda, it freezes the process (SIGSTOP) between invocations, and
 * kills it when its time is up.
 */
export async function startEnvironment(settings: FunctionSettings): Promise<ExecutionEnvironment> {
  if (!existsSync(interfaceClient)) {
    throw new Error("Amazon's Lambda runtime is missing. Run: node scripts/install-lambda-runtime.mjs");
  }
  let current: Invocation | undefined;
  let askedForNext: ((invocation: Invocation) => void) | undefined;
  let timer: NodeJS.Timeout | undefined;
  let written = "";
  let isAlive = true;
  const frozen = new EventEmitter();

  const api = createServer((request, response) => {
    route(request, response).catch((error) => current?.reject(error as Error));
  });
  const port = await listening(api);
  const child = spawnRuntime(settings, port);
  child.stdout!.on("data", (chunk) => {
    written += chunk;
  });
  child.stderr!.on("data", (chunk) => {
    written += chunk;
  });
  const ended = new Promise<void>((resolve) => {
    child.once("exit", (code, signal) => {
      isAlive = false;
      settle((invocation) =>
        invocation.reject(new FunctionError(`Runtime exited: ${signal ?? code}\n${written.slice(-2_000)}`)),
      );
      api.close(() => resolve());
      api.closeAllConnections();
    });
  });

  function settle(how: (invocation: Invocation) => void): void {
    clearTimeout(timer);
    const invocation = current;
    current = undefined;
    if (invocation !== undefined) how(invocation);
  }

  async function route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [, id, what] = /\/runtime\/(?:invocation\/)?([\w-]+)(?:\/(\w+))?$/.exec(request.url!) ?? [];
    if (id === "next") return hand(response);
    const body = await text(request);
    response.writeHead(202).end();
    if (id === "init") return settle(({ reject }) => reject(new FunctionError(body)));
    if (id !== current?.id) return; // it came too late
    if (what === "response") settle(({ resolve }) => resolve(JSON.parse(body)));
    else settle(({ reject }) => reject(new FunctionError(body)));
  }

  /** Freezes the process until there is an event. */
  function hand(response: ServerResponse): void {
    askedForNext = ({ id, event }) => {
      askedForNext = undefined;
      child.kill("SIGCONT");
      const deadline = Date.now() + settings.timeoutMs; // a cold start is not counted
      timer = setTimeout(timeOut, settings.timeoutMs);
      response.writeHead(200, {
        "content-type": "application/json",
        "lambda-runtime-aws-request-id": id,
        "lambda-runtime-deadline-ms": String(deadline),
        "lambda-runtime-invoked-function-arn": "arn:aws:lambda:us-east-1:000000000000:function:test",
        "lambda-runtime-trace-id": "Root=1-00000000-000000000000000000000000;Sampled=0",
      });
      response.end(JSON.stringify(event));
    };
    if (current !== undefined) askedForNext(current);
    else {
      child.kill("SIGSTOP");
      frozen.emit("frozen");
    }
  }

  function timeOut(): void {
    isAlive = false;
    child.kill("SIGKILL");
    settle(({ reject }) => reject(new FunctionError(`Task timed out after ${settings.timeoutMs} ms`)));
  }

  async function invoke(event: unknown): Promise<unknown> {
    if (!isAlive || current !== undefined) throw new Error("This environment cannot take an event now.");
    return new Promise((resolve, reject) => {
      current = { id: randomUUID(), event, resolve, reject };
      askedForNext?.(current);
    });
  }

  return {
    pid: child.pid!,
    get isAlive() {
      return isAlive;
    },
    invoke,
    async untilFrozen() {
      if (askedForNext === undefined) await once(frozen, "frozen");
    },
    logs: () => written,
    async close() {
      isAlive = false;
      child.kill("SIGKILL");
      await ended;
    },
  };
}

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

/** A function sees only the variables that it is given, and the path. */
function spawnRuntime({ folder, handler, env, node }: FunctionSettings, port: number): ChildProcess {
  const child = spawn(
    node,
    ["--no-warnings", "--require", runtimeFile("runtime-client.cjs"), interfaceClient],
    {
      cwd: folder,
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        PATH: process.env.PATH,
        AWS_LAMBDA_RUNTIME_API: `127.0.0.1:${port}`,
        AWS_LAMBDA_FUNCTION_NAME: handler,
        AWS_LAMBDA_FUNCTION_VERSION: "$LATEST",
        AWS_LAMBDA_FUNCTION_MEMORY_SIZE: "512",
        AWS_LAMBDA_LOG_GROUP_NAME: "test",
        AWS_LAMBDA_LOG_STREAM_NAME: "test",
        AWS_REGION: "us-east-1",
        AWS_ACCESS_KEY_ID: "test",
        AWS_SECRET_ACCESS_KEY: "test",
        LAMBDA_TASK_ROOT: folder,
        _HANDLER: handler,
        ...env,
      },
    },
  );
  // An aborted test run must not leave frozen processes behind.
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  child.once("exit", () => process.off("exit", kill));
  return child;
}
