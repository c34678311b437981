import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { Server, ServerCredentials, type ServerDuplexStream, type ServiceDefinition } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import type { FunctionsWorker, HostLog, RpcData, Trigger } from "./functions-worker.js";

type Message = { readonly requestId?: string; readonly content?: string } & Readonly<Record<string, unknown>>;
type Stream = ServerDuplexStream<Message, Message>;

interface Outcome {
  readonly result?: { readonly status: number; readonly exception?: { readonly message: string } | null };
}

const levels = ["trace", "debug", "information", "warning", "error", "critical"];
const categories = ["user", "system"];
const succeeded = 1;
const maxMessageBytes = 2 ** 31 - 1;

/** Starts Microsoft's worker (its nodejsWorker.js) on a function app, and speaks to it as the Functions host does. */
export async function startGrpcWorker(path: string, folder: string, log: HostLog): Promise<FunctionsWorker> {
  const { server, port, connected } = await listen();
  const uri = `http://127.0.0.1:${port}`;
  const id = randomUUID();
  const child = spawn(
    process.execPath,
    [
      path,
      ...["--functions-uri", uri, "--functions-worker-id", id, "--functions-request-id", randomUUID()],
      ...["--functions-grpc-max-message-length", String(maxMessageBytes)],
    ],
    { cwd: folder, stdio: ["ignore", "ignore", "inherit"] },
  );
  const ended = once(child, "exit");
  const stream = await Promise.race([
    connected,
    ended.then(() => Promise.reject(new Error("The worker ended."))),
  ]);
  const waiting = new Map<string, (message: Message) => void>();
  stream.on("data", (message: Message) => {
    if (message.content === "rpcLog") {
      const line = message.rpcLog as {
        level: number;
        logCategory: number;
        message: string;
        invocationId: string;
      };
      log(levels[line.level]!, categories[line.logCategory] ?? "other", line.message, line.invocationId);
      return;
    }
    waiting.get(message.requestId!)?.(message);
    waiting.delete(message.requestId!);
  });

  /** Sends a request and returns the worker's response. */
  const ask = async <Answer extends Outcome>(content: string, request: object): Promise<Answer> => {
    const requestId = randomUUID();
    const answered = new Promise<Message>((resolve) => waiting.set(requestId, resolve));
    stream.write({ requestId, [content]: request });
    const message = await answered;
    const answer = message[message.content!] as Answer;
    if (answer.result?.status !== succeeded)
      throw new Error(answer.result?.exception?.message ?? "It failed.");
    return answer;
  };

  const app = { functionAppDirectory: folder };
  await ask("workerInitRequest", { ...app, hostVersion: "4.1040.0", workerDirectory: dirname(path) });
  const { functionMetadataResults: functions } = await ask<Metadata>("functionsMetadataRequest", app);
  for (const metadata of functions) {
    await ask("functionLoadRequest", { functionId: metadata.functionId, metadata });
  }
  const ids = new Map(functions.map(({ name, functionId }) => [name, functionId]));
  const triggers = new Map(functions.map(({ name, rawBindings }) => [name, triggerOf(rawBindings)]));
  return {
    triggers,
    async invoke(name, data, invocationId, triggerMetadata = {}) {
      const inputData = [{ name: triggers.get(name)!.name, data }];
      const request = { invocationId, functionId: ids.get(name), inputData, triggerMetadata };
      const { returnValue } = await ask<Outcome & { returnValue: RpcData | null }>(
        "invocationRequest",
        request,
      );
      return returnValue;
    },
    async terminate() {
      stream.write({ workerTerminate: {} });
      await ended;
      server.forceShutdown();
    },
  };
}

interface Metadata extends Outcome {
  readonly functionMetadataResults: readonly {
    readonly name: string;
    readonly functionId: string;
    readonly rawBindings: readonly string[];
  }[];
}

const triggerOf = (rawBindings: readonly string[]): Trigger =>
  rawBindings.map((raw) => JSON.parse(raw) as Trigger).find(({ type }) => /Trigger$/.test(String(type)))!;

async function listen(): Promise<{ server: Server; port: number; connected: Promise<Stream> }> {
  const file = fileURLToPath(new URL("functions-rpc.proto", import.meta.url));
  const definition = loadSync(file, { oneofs: true, defaults: true, longs: Number });
  const server = new Server({
    "grpc.max_receive_message_length": maxMessageBytes,
    "grpc.max_send_message_length": maxMessageBytes,
  });
  const connected = new Promise<Stream>((resolve) => {
    server.addService(definition["AzureFunctionsRpcMessages.FunctionRpc"] as ServiceDefinition, {
      // The worker speaks first.
      EventStream: (stream: Stream) => stream.once("data", () => resolve(stream)),
    });
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    );
  });
  return { server, port, connected };
}
