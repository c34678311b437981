import { execFile, spawnSync } from "node:child_process";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { closeServer, listening } from "../../src/http/node.js";
import { sqliteService } from "../support/inbox-service/sqlite-service.js";
import { type StartedService, token } from "../support/inbox-service/start-service.js";
import { startLossyProxy } from "../support/lossy-proxy.js";
import { root } from "../support/markdown.js";

const run = promisify(execFile);
const folder = join(root, "examples/inbox-client-python");
const hasPython = spawnSync("python3", ["--version"]).status === 0;

describe.skipIf(!hasPython)("examples/inbox-client-python (needs python3 on the PATH)", () => {
  let service: StartedService;
  beforeAll(async () => {
    service = await sqliteService();
  });
  afterAll(() => service?.close());

  const python = async (args: readonly string[], bearer = token): Promise<string> => {
    const env = { ...process.env, INBOX_TOKEN: bearer, PYTHONDONTWRITEBYTECODE: "1" };
    const { stdout } = await run("python3", args, { cwd: folder, env });
    return stdout;
  };
  /** Runs lines with `client` at hand, and returns what they print. */
  const withClient = (url: string, lines: readonly string[], bearer?: string): Promise<string> => {
    const before = ["import os, sys", "from inbox_client import InboxClient, InboxServiceError"];
    const client = "client = InboxClient(sys.argv[1], os.environ['INBOX_TOKEN'])";
    return python(["-c", [...before, client, ...lines].join("\n"), url], bearer);
  };

  it("SVC-09 handles a message once, as its README says", async () => {
    const args = ["example.py", service.url, "shop:billing:order.placed:42"];
    expect(await python(args)).toBe("sending the invoice\nHandled\n");
    expect(await python(args)).toBe("Processed\n");
    const { json } = await service.get("shop:billing:order.placed:42");
    expect(json).toMatchObject({ status: "Processed", attempts: 1, owner: "billing in Python" });
  });

  it("SVC-09 speaks every call of the protocol, and releases the key of work that fails", async () => {
    const printed = await withClient(service.url, [
      "key = 'a b/c?é'",
      "print(client.inspect(key)['status'])",
      "lease = client.try_begin(key, owner='me', lease_seconds=60)['leaseId']",
      "print(client.try_begin(key)['status'], client.inspect(key)['owner'])",
      "print(client.renew(key, lease)['status'], client.release(key, lease)['status'])",
      "try: client.handle_once(key, lambda: 1 / 0)",
      "except ZeroDivisionError: print('failed', client.inspect(key)['status'])",
      "print(client.handle_once(key, lambda: None), client.release(key, lease)['status'])",
    ]);
    expect(printed.trim().split("\n")).toEqual([
      "Unknown",
      "Busy me",
      "Renewed Released",
      "failed Free",
      "Handled LeaseLost",
    ]);
  });

  it("SVC-07 SVC-09 tells a wrong token at once", async () => {
    const lines = ["try: client.inspect('k')", "except InboxServiceError as error: print(error)"];
    expect(await withClient(service.url, lines, "wrong-token-0123456789")).toMatch(/answered 401/);
  });

  it("SVC-09 repeats a try-begin whose answer was lost, and gets its own lease", async () => {
    const proxy = await startLossyProxy({
      protocol: "http",
      listen: { port: 0 },
      target: { port: Number(new URL(service.url).port) },
      decide: (index) => ({ fault: index === 0 ? "drop-answer" : "none", amount: 0 }),
    });
    try {
      const url = `http://127.0.0.1:${proxy.address.port}`;
      expect(await withClient(url, ["print(client.try_begin('lost answer')['status'])"])).toBe("Acquired\n");
      expect(proxy.arrived).toBe(2);
    } finally {
      await proxy.close();
    }
  });

  /** What the client prints for a server that answers as it is told, and the number of requests that it needed. */
  const withAnswers = async (answers: readonly ((response: ServerResponse) => void)[]) => {
    const paths: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      paths.push(request.url);
      answers[Math.min(paths.length, answers.length) - 1]!(response);
    });
    await listening(server, { port: 0, host: "127.0.0.1" });
    try {
      const lines = ["try: print(client.inspect('k'))", "except InboxServiceError as error: print(error)"];
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      return { printed: await withClient(url, lines), requests: paths.length };
    } finally {
      await closeServer(server, 1_000);
    }
  };

  it("SVC-09 asks again after a 503, a 408 and a refusal that was cut off, and follows no redirect", async () => {
    const fine = (response: ServerResponse) => response.end('{"status":"Unknown"}');
    const cutOff = (response: ServerResponse) => {
      response.writeHead(503, { "content-length": 100 });
      response.write("{", () => response.destroy());
    };
    const busy = (response: ServerResponse) => response.writeHead(408).end();
    expect(await withAnswers([cutOff, busy, fine])).toEqual({
      printed: "{'status': 'Unknown'}\n",
      requests: 3,
    });
    const moved = (response: ServerResponse) => response.writeHead(307, { location: "/other" }).end();
    expect(await withAnswers([moved])).toEqual({ printed: "the service answered 307: \n", requests: 1 });
  });
});
