import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { LogFields, Logger } from "../../../src/base/logger.js";
import { closeServer, listening } from "../../../src/http/node.js";
import { createInboxService, type InboxServiceOptions } from "../../../src/inbox-store/http/inbox-service.js";
import { type DocumentChecks, documentChecks } from "./check-answer.js";

export const token = "test-token-0123456789";

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
  /** The parsed body. */
  readonly json: AnswerJson;
}

/** All that the body of an answer may have. A test reads only what the answer that it expects has. */
export interface AnswerJson {
  readonly status: string;
  readonly leaseId: string;
  readonly expiresAt: string;
  readonly leaseUntil: string;
  readonly error: { readonly code: string; readonly message: string; readonly field: string };
}

export interface StartedService {
  readonly url: string;
  readonly checks: DocumentChecks;
  /** All log lines, of the service and of whatever else was given `logger`, as JSON. */
  lines(): string;
  /** Sends JSON with the right token. Every answer is compared with the document that the service serves. */
  post(operation: string, body: unknown): Promise<Answer>;
  get(key: string): Promise<Answer>;
  send(path: string, init?: RequestInit): Promise<Answer>;
  close(): Promise<void>;
}

export interface LogCollector {
  readonly logger: Logger;
  lines(): string;
}

export function collectLog(): LogCollector {
  const lines: string[] = [];
  const at = (level: string) => (message: string, fields: LogFields) => {
    lines.push(JSON.stringify({ level, message, ...fields }));
  };
  const logger = { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
  return { logger, lines: () => lines.join("\n") };
}

/** The service behind a server on this machine, with `token` unless other options say otherwise. */
export async function startService(
  options: InboxServiceOptions,
  log: LogCollector = collectLog(),
): Promise<StartedService> {
  const auth = options.auth === undefined && options.tokens === undefined ? { tokens: token } : {};
  const server = createServer(createInboxService({ logger: log.logger, ...auth, ...options }).listener);
  await listening(server, { port: 0, host: "127.0.0.1" });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const checks = documentChecks(JSON.parse(await (await fetch(`${url}/v1/openapi.json`)).text()));
  return {
    ...serviceClient(url, checks),
    url,
    checks,
    lines: log.lines,
    close: () => closeServer(server, 1_000),
  };
}

/** Calls a service at any URL, and compares its answers with a document. */
export function serviceClient(url: string, checks: DocumentChecks, bearer = token) {
  const send = async (path: string, init: RequestInit = {}): Promise<Answer> => {
    const answer = await fetch(url + path, init);
    const { status, headers } = answer;
    const body = await answer.text();
    return { status, headers, body, json: JSON.parse(body || "null") };
  };
  const checked = async (method: string, path: string, init: RequestInit): Promise<Answer> => {
    const headers = { authorization: `Bearer ${bearer}`, "content-type": "application/json" };
    const answer = await send(path, { method, headers, ...init });
    checks.answer(method, path, answer);
    return answer;
  };
  return {
    send,
    post: (operation: string, body: unknown) =>
      checked("POST", `/v1/inbox/${operation}`, {
        body: typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body),
      } as RequestInit),
    get: (key: string) => checked("GET", `/v1/inbox/${encodeURIComponent(key)}`, {}),
  };
}
