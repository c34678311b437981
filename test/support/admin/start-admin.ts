import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type AdminOptions, createAdmin } from "../../../src/admin/create-admin.js";
import { closeServer, listening } from "../../../src/http/node.js";
import { collectLog, type LogCollector } from "../inbox-service/start-service.js";

export const adminToken = "alice:test-secret-0123456789";

export interface AdminAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads only what the answer that it expects has
  readonly json: any;
}

/** Calls the API at any URL, with a token unless it is null. */
export function adminClient(url: string, token: string | null = adminToken) {
  const send = async (path: string, init: RequestInit = {}): Promise<AdminAnswer> => {
    const authorization = token === null ? {} : { authorization: `Bearer ${token}` };
    const answer = await fetch(url + path, { ...init, headers: { ...authorization, ...init.headers } });
    const { status, headers } = answer;
    const body = await answer.text();
    const isJson = headers.get("content-type")?.startsWith("application/json") && body !== "";
    return { status, headers, body, json: isJson ? JSON.parse(body) : undefined };
  };
  return {
    send,
    get: (path: string) => send(`/_oncebox/${path}`),
    post: (path: string, body?: unknown) =>
      send(`/_oncebox/${path}`, {
        method: "POST",
        ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      }),
  };
}

export type StartedAdmin = Awaited<ReturnType<typeof startAdmin>>;

/** The API behind a server on this machine. */
export async function startAdmin(
  options: Omit<AdminOptions, "tokens"> & Partial<Pick<AdminOptions, "tokens">>,
  log: LogCollector = collectLog(),
) {
  const server = createServer(createAdmin({ tokens: adminToken, logger: log.logger, ...options }).listener);
  await listening(server, { port: 0, host: "127.0.0.1" });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    ...adminClient(url),
    as: (token: string | null) => adminClient(url, token),
    url,
    lines: log.lines,
    close: () => closeServer(server, 1_000),
  };
}
