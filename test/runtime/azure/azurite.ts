import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { type QueueClient, QueueServiceClient } from "@azure/storage-queue";
import { localTls } from "./local-tls.js";

/** A new queue of an emulator, for the test's own process. */
export async function createQueue({ connectionString }: Azurite, name: string): Promise<QueueClient> {
  const tlsOptions = { ca: localTls.read().cert };
  // an option of the HTTP pipeline that the type does not have
  const service = QueueServiceClient.fromConnectionString(connectionString, { tlsOptions } as object);
  const queue = service.getQueueClient(name);
  await queue.create();
  return queue;
}

/** Azurite's default account and its published key. */
const account = "devstoreaccount1";
const key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

export interface Azurite {
  readonly queueServiceUrl: string;
  readonly connectionString: string;
  stop(): Promise<void>;
}

/** Microsoft's emulator of Storage queues, in memory, on a port of its own. It accepts the key and Entra's tokens. */
export async function startAzurite(): Promise<Azurite> {
  const main = createRequire(import.meta.url).resolve("azurite/dist/src/queue/main.js");
  const flags = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"];
  const tls = ["--cert", localTls.certFile, "--key", localTls.keyFile, "--oauth", "basic"];
  const server = spawn(process.execPath, ["--no-warnings", main, ...flags, ...tls, "--queuePort", "0"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(server, "exit");
  const kill = () => server.kill("SIGKILL");
  process.once("exit", kill);
  const url = await new Promise<string>((resolve, reject) => {
    createInterface(server.stdout).on("line", (line) => {
      const found = /listens on (https:\S+)/.exec(line)?.[1];
      if (found !== undefined) resolve(found);
    });
    ended.then(() => reject(new Error("Azurite did not start.")));
  });
  const queueServiceUrl = `${url}/${account}`;
  return {
    queueServiceUrl,
    connectionString: `DefaultEndpointsProtocol=https;AccountName=${account};AccountKey=${key};QueueEndpoint=${queueServiceUrl}`,
    async stop() {
      process.off("exit", kill);
      kill();
      await ended;
    },
  };
}
