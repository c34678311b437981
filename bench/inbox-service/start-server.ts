import { Agent, request } from "node:http";
import type { BenchDatabase } from "../databases/bench-database.js";
import { startPeerChild } from "../peers/peer-child.js";
import { type ServerAnswer, token } from "./two-servers.js";

/** One side's server in a process of its own, with tables of its own. */
export interface StartedServer {
  /** Returns the status of the key: Acquired, Busy or Processed. */
  tryBegin(key: string): Promise<string>;
  close(): Promise<void>;
}

const file = new URL("server-process.ts", import.meta.url);

export async function startServer(database: BenchDatabase, side: "oncebox" | "bare"): Promise<StartedServer> {
  const place = database.newPlace();
  const child = await startPeerChild(file, [side, place.url, place.schema], process.execPath);
  const { port } = await child.ask<ServerAnswer>(1);
  const agent = new Agent({ keepAlive: true });
  return {
    tryBegin: (key) => post(agent, port, JSON.stringify({ key, leaseSeconds: 30 })),
    async close() {
      agent.destroy();
      await child.close();
      await place.close();
    },
  };
}

/** By node:http: `fetch` takes more processor time than either server, and would hide the difference. */
function post(agent: Agent, port: number, body: string): Promise<string> {
  const headers = {
    authorization: `Bearer ${token}`,
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
  };
  const options = { agent, host: "127.0.0.1", port, method: "POST", path: "/v1/inbox/try-begin", headers };
  return new Promise((resolve, reject) => {
    const call = request(options, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("error", reject);
      response.on("end", () => resolve((JSON.parse(text) as { status: string }).status));
    });
    call.on("error", reject);
    call.end(body);
  });
}
