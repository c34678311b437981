import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ServerRecipe } from "./servers/find-server.js";

interface PoolerOptions {
  readonly mode?: "transaction" | "session";
  /** Sessions of the server that all clients share. */
  readonly size?: number;
}

/** PgBouncer in front of a PostgreSQL server. Every client has the server's user. */
export const pgBouncer = (
  server: string,
  { mode = "transaction", size = 20 }: PoolerOptions = {},
): ServerRecipe => {
  const { hostname, port: serverPort, username, password, pathname } = new URL(server);
  return {
    variable: `ONCEBOX_TEST_PGBOUNCER_${mode.toUpperCase()}_URL`,
    programs: ["pgbouncer"],
    async run(port, folder) {
      const settings = join(folder, "pgbouncer.ini");
      await writeFile(
        settings,
        `[databases]
* = host=${hostname} port=${serverPort || 5432} user=${username}${password && ` password=${password}`}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = ${mode}
default_pool_size = ${size}
max_client_conn = 1000
`,
      );
      await chmod(folder, 0o755);
      // It refuses to run as root.
      return { args: [...(process.getuid?.() === 0 ? ["-u", "nobody"] : []), settings] };
    },
    url: (address) => `postgres://${username}@${address}${pathname}`,
  };
};
