import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

/** The account that every Azurite has, and its published key. */
const account = "devstoreaccount1";
const key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

export interface Azurite {
  readonly connectionString: string;
  stop(): Promise<void>;
}

/** Microsoft's emulator of Storage queues, in memory, on a port of its own. */
export async function startAzurite(): Promise<Azurite> {
  const main = createRequire(import.meta.url).resolve("azurite/dist/src/queue/main.js");
  const flags = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"];
  const server = spawn(process.execPath, ["--no-warnings", main, ...flags, "--queuePort", "0"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(server, "exit");
  const kill = () => server.kill("SIGKILL");
  process.once("exit", kill);
  const url = await new Promise<string>((resolve, reject) => {
    createInterface(server.stdout).on("line", (line) => {
      const found = /listens on (http:\S+)/.exec(line)?.[1];
      if (found !== undefined) resolve(found);
    });
    ended.then(() => reject(new Error("Azurite did not start.")));
  });
  return {
    connectionString: `DefaultEndpointsProtocol=http;AccountName=${account};AccountKey=${key};QueueEndpoint=${url}/${account}`,
    async stop() {
      process.off("exit", kill);
      kill();
      await ended;
    },
  };
}
