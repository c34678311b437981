import type { Client, ClientConfig } from "pg";
import type { WrongSetting } from "../inspection.js";
import { pgListener } from "./client.js";

/** How often it is asked which session of the server runs a statement: a pooler may have several free ones. */
const rounds = 4;

/**
 * Whether a pooler lends the sessions of the server to several connections in turn. Two open connections to a server, or to a
 * pooler in session mode, never have the same session, and keep the one that they have. `false` is not proof.
 */
export async function sharesSessions(connected: Client, config: ClientConfig): Promise<boolean> {
  const first = await backendOf(connected);
  // The server itself tells a connection the number of its session. Poolers make one up.
  if (first === (connected as Client & { readonly processID: number | null }).processID) return false;
  const other = await pgListener(config);
  other.on("error", () => {}); // its query rejects by itself
  try {
    await other.connect();
    for (let round = 0; round < rounds; round++)
      if ((await backendOf(other)) === first || (await backendOf(connected)) !== first) return true;
    return false;
  } finally {
    await other.end().catch(() => {});
  }
}

async function backendOf(client: Client): Promise<number> {
  const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
  return rows[0]!.pid;
}

/**
 * For `oncebox doctor`: prepared statements through a pooler that shares sessions, unless it keeps them. A pooler that nobody else uses
 * at the moment may not show that it shares any: then its host and port must do.
 */
export async function checkPooler(config: ClientConfig, prepare: boolean): Promise<readonly WrongSetting[]> {
  if (!prepare) return [];
  const run = "add ?prepare=false to the URL";
  const client = await pgListener({ ...config, query_timeout: longestProbeMs });
  client.on("error", () => {});
  try {
    await client.connect();
    if (!(await sharesSessions(client, config))) {
      const { host, port } = client;
      const message = `${host}:${port} looks like a pooler in transaction mode, and prepared statements are on.`;
      return isPoolersAddress(host, port) ? [{ message, run, tolerable: true }] : [];
    }
    if (await keepsPrepared(client, config)) return [];
    const message =
      "A pooler shares the sessions of the server between transactions and does not keep prepared statements, which are on.";
    return [{ message, run, tolerable: false }];
  } finally {
    await client.end().catch(() => {});
  }
}

/** Of the poolers in docs/poolers.md those that lend sessions for a transaction: Supabase's has another port for whole sessions. */
function isPoolersAddress(host: string, port: number): boolean {
  if (/\.pooler\.supabase\.com$/.test(host)) return port === 6543;
  const isKnown = /\.proxy-\w+\.[\w-]+\.rds\.amazonaws\.com$|-pooler\.[\w.-]*neon\.tech$/.test(host);
  return isKnown || (port === 6432 && /\.postgres\.database\.azure\.com$/.test(host));
}

/** A pooler with one session makes the probe wait for itself. */
const longestProbeMs = 5_000;

/** Executes a prepared statement again while another transaction has the session in which it was prepared. */
async function keepsPrepared(client: Client, config: ClientConfig): Promise<boolean> {
  const probe = { name: `oncebox_probe_${Date.now().toString(36)}`, text: "select 1" };
  const other = await pgListener(config);
  other.on("error", () => {});
  try {
    await other.connect();
    await client.query(probe);
    await other.query("begin");
    await other.query("select 1");
    await client.query(probe);
    return true;
  } catch {
    return false;
  } finally {
    await other.end().catch(() => {});
  }
}
