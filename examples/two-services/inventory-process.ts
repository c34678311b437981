/** Starts, kills and stops the process of the inventory service. */
import { fork } from "node:child_process";
import { on, once } from "node:events";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("inventory.ts", import.meta.url));

/** What the process tells this one: where it listens, and the order that it is reserving for. */
interface Told {
  readonly address?: string;
  readonly reserving?: string;
}

export async function startInventory(file: string, listenOn = "http://127.0.0.1:0/_rf/receive") {
  const child = fork(program, [file, listenOn]);
  const ended = once(child, "exit");
  const messages = on(child, "message", { close: ["exit"] });

  async function told(): Promise<Told> {
    const next = await messages.next();
    if (next.done) throw new Error("The inventory service has ended.");
    return next.value[0] as Told;
  }

  return {
    address: (await told()).address!,
    /** Resolves in the middle of the reservation for an order. */
    async reserving(orderId: string): Promise<void> {
      while ((await told()).reserving !== orderId);
    },
    loseNextAcknowledgement: () => child.send("lose the next acknowledgement"),
    async kill(): Promise<void> {
      child.kill("SIGKILL");
      await ended;
    },
    async stop(): Promise<void> {
      child.disconnect();
      await ended;
    },
  };
}
