import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { dial } from "../loopback.js";
import { freePort, type StartedServer } from "../start-postgres.js";
import type { ServerRecipe } from "./find-server.js";

const startMs = 60_000;

/** Starts a server of this machine on a free port of 127.0.0.1, with a folder of its own that goes when it stops. */
export async function startBinary(program: string, recipe: ServerRecipe): Promise<StartedServer> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-server-"));
  const port = await freePort();
  const { args, env: own, afterwards } = await recipe.run(port, folder);
  const env = { ...process.env, ...own };
  const child = spawn(program, args, {
    cwd: folder,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      output = (output + text).slice(-4_000);
    });
  }
  const ended = once(child, "exit");
  const stop = async (): Promise<void> => {
    child.kill("SIGTERM");
    await ended;
    if (afterwards !== undefined) spawnSync(afterwards[0], afterwards.slice(1), { env });
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await Promise.race([untilItListens(port), ended.then(() => Promise.reject(new Error("it ended")))]);
  } catch (error) {
    await stop();
    throw new Error(`${program} did not start: ${(error as Error).message}\n${output}`);
  }
  return { url: recipe.url(`127.0.0.1:${port}`), stop };
}

async function untilItListens(port: number): Promise<void> {
  for (const deadline = Date.now() + startMs; Date.now() < deadline; await sleep(50)) {
    const socket = dial({ port });
    const connected = await once(socket, "connect").then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (connected) return;
  }
  throw new Error(`nothing listens on its port after ${startMs} ms`);
}
