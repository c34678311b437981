import { randomUUID } from "node:crypto";
import { link, lstat, rename, unlink } from "node:fs/promises";
import { connect } from "node:net";
import { sleep } from "../../base/wait.js";
import { InvalidOperationError } from "../../errors.js";

/**
 * Removes the socket file of a process that was killed, so that the next one can listen there. Refuses a socket that a
 * process listens on, and a file that is no socket.
 */
export async function freeSocket(path: string): Promise<void> {
  const found = await lstat(path).catch(ignoreMissing);
  if (found === undefined) return;
  if (!found.isSocket()) {
    throw new InvalidOperationError(`${path} is not a socket. Remove it, or listen on another path.`);
  }
  // A process that starts has the file an instant before it accepts connections, so a second look follows.
  for (const waitMs of [0, 50]) {
    await sleep(waitMs);
    if (await isServed(path)) throw inUse(path);
  }
  // Another process may have removed the file, too, and listen here by now. So the file is set aside first, tried once
  // more, and put back if it is in use after all.
  const aside = `${path}.${randomUUID().slice(0, 8)}`;
  if ((await rename(path, aside).then(() => true, ignoreMissing)) === undefined) return;
  const isTaken = await isServed(aside);
  if (isTaken) await link(aside, path);
  await unlink(aside);
  if (isTaken) throw inUse(path);
}

const inUse = (path: string): InvalidOperationError =>
  new InvalidOperationError(`A process already listens on ${path}. Stop it, or listen on another path.`);

/** A process listens if it accepts a connection. One that is too busy to accept it listens as well. */
const isServed = (path: string): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = connect(path);
    const end = (served: boolean) => {
      probe.destroy();
      resolve(served);
    };
    probe.once("connect", () => end(true));
    probe.once("error", ({ code }: NodeJS.ErrnoException) =>
      end(code !== "ECONNREFUSED" && code !== "ENOENT"),
    );
  });

const ignoreMissing = (error: NodeJS.ErrnoException): undefined => {
  if (error.code === "ENOENT") return undefined;
  throw error;
};
