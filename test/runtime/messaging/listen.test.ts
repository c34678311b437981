import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { Agent, type IncomingMessage, request } from "node:http";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { createTransports } from "../../../src/messaging/destinations.js";
import { httpTransport } from "../../../src/messaging/transports/http-transport.js";
import { listen } from "../../../src/messaging/transports/listen.js";
import { gate } from "../../contract/support/gate.js";
import { type LogLine, recordingLogger } from "../../contract/support/recording-logger.js";
import { newMessage } from "../../contract/transports/support.js";
import { type BundledChild, bundleChild } from "../../support/bundled-child.js";
import { runChild } from "../../support/run-child.js";
import { tls } from "../../support/transport-harness.js";
import { acknowledgedText, closed, failureOf, sendTo } from "../../unit/messaging/transport-support.js";

const fetch = async () => new Response(acknowledgedText);
const transport = () => closed(httpTransport());
const folder = mkdtempSync(join(tmpdir(), "rf-")); // killed processes leave their sockets
const freshPath = () => join(folder, `${randomUUID().slice(0, 8)}.sock`);
const leftOvers = (path: string) => readdirSync(folder).filter((name) => name.startsWith(basename(path)));

let child: BundledChild;
beforeAll(async () => {
  child = await bundleChild(fileURLToPath(new URL("./listen-child.ts", import.meta.url)));
});
afterAll(async () => {
  await child.remove();
  await rm(folder, { recursive: true });
});

/** Starts a process that listens, and waits for what it says. */
async function startChild(
  address: string,
): Promise<{ readonly process: ChildProcess; readonly said: string }> {
  const started = spawn(process.execPath, [child.path, address], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void started.kill("SIGKILL"));
  const [said] = (await once(createInterface(started.stdout!), "line")) as [string];
  return { process: started, said };
}

async function kill(started: ChildProcess): Promise<void> {
  const exited = once(started, "exit");
  started.kill("SIGKILL");
  await exited;
}

describe.skipIf(process.platform === "win32")("listening on a Unix socket", () => {
  it("MSG-16 MSG-19 the socket file of a killed process does not stop the next one", async () => {
    const path = freshPath();
    const address = `unix://${path}`;
    const first = await startChild(address);
    expect(await sendTo(transport(), address, newMessage())).toMatchObject({
      payload: { pid: first.process.pid },
    });
    await kill(first.process);
    expect(existsSync(path)).toBe(true);
    expect((await failureOf(transport(), address, newMessage())).message).toContain("ECONNREFUSED");
    const second = await startChild(address);
    expect(second.said).toBe("listening");
    expect(await sendTo(transport(), address, newMessage())).toMatchObject({
      payload: { pid: second.process.pid },
    });
    expect(leftOvers(path)).toHaveLength(1);
    await kill(second.process);
    const third = await listen({ address, fetch });
    expect(await sendTo(transport(), address, newMessage())).toMatchObject({ acknowledged: true });
    await third.close();
    expect(existsSync(path)).toBe(false);
  });

  it("MSG-19 a socket that another process listens on is not taken from it", async () => {
    const address = `unix://${freshPath()}`;
    const first = await startChild(address);
    await expect(listen({ address, fetch })).rejects.toThrow(/already listens on/);
    expect((await startChild(address)).said).toMatch(/^refused: A process already listens on/);
    expect(await sendTo(transport(), address, newMessage())).toMatchObject({
      payload: { pid: first.process.pid },
    });
  });

  it("MSG-19 of several processes that find the file of a killed one, one listens and the others are refused", async () => {
    const path = freshPath();
    const address = `unix://${path}`;
    await kill((await startChild(address)).process);
    const started = await Promise.all(Array.from({ length: 4 }, () => startChild(address)));
    const listening = started.filter(({ said }) => said === "listening");
    expect(listening).toHaveLength(1);
    const served = { payload: { pid: listening[0]!.process.pid } };
    expect(await sendTo(transport(), address, newMessage())).toMatchObject(served);
    expect(leftOvers(path)).toHaveLength(1);
  });

  it("MSG-19 a file that is no socket is left alone", async () => {
    const path = freshPath();
    await writeFile(path, "a note");
    onTestFinished(() => rm(path));
    await expect(listen({ address: `unix://${path}`, fetch })).rejects.toThrow(/is not a socket/);
    expect(await readFile(path, "utf8")).toBe("a note");
  });

  it("MSG-19 a pipe's name is a socket in the temporary folder", async () => {
    const name = `rf-${randomUUID().slice(0, 8)}`;
    const listener = await listen({ address: `pipe://${name}`, fetch });
    expect(existsSync(join(tmpdir(), `${name}.sock`))).toBe(true);
    expect(await sendTo(transport(), listener.address, newMessage())).toMatchObject({ acknowledged: true });
    await listener.close();
    expect(existsSync(join(tmpdir(), `${name}.sock`))).toBe(false);
  });
});

describe("listening", () => {
  it("MSG-09 close waits for a message that is being handled, and takes no new one", async () => {
    const arrived = gate();
    const released = gate();
    const listener = await listen({
      address: "http://127.0.0.1:0",
      stopMs: 600_000, // longer than the test: it must not be needed
      async fetch() {
        arrived.open();
        await released.promise;
        return new Response(acknowledgedText);
      },
    });
    const sending = sendTo(transport(), listener.address, newMessage());
    await arrived.promise;
    const closing = listener.close();
    expect((await failureOf(transport(), listener.address, newMessage())).message).toContain("ECONNREFUSED");
    released.open();
    expect(await sending).toMatchObject({ acknowledged: true });
    await closing;
  });

  it.each(["http", "grpc"])("MSG-09 close of %s cuts off a message after stopMs", async (scheme) => {
    const arrived = gate();
    const gone = gate();
    const listener = await listen({
      address: `${scheme}://127.0.0.1:0`,
      stopMs: 50,
      fetch(request) {
        request.signal.addEventListener("abort", () => gone.open());
        arrived.open();
        return new Promise(() => {});
      },
    });
    const transports = createTransports();
    onTestFinished(() => transports.close());
    const failing = failureOf(transports.transportFor(listener.address), listener.address, newMessage());
    await arrived.promise;
    await listener.close();
    await failing;
    await gone.promise;
  });

  it.each(["http://127.0.0.1:0", `unix://${freshPath()}`])(
    "MSG-18 %s: a receiver that refuses a large message without reading it is understood, and the next message arrives",
    async (address) => {
      let status = 413;
      const listener = await listen({
        address,
        fetch: async () => new Response(acknowledgedText, { status }),
      });
      onTestFinished(() => listener.close());
      const sender = transport();
      const large = newMessage("x".repeat(20_000_000));
      expect(await sendTo(sender, listener.address, large)).toMatchObject({ permanent: true });
      status = 200;
      expect(await sendTo(sender, listener.address, newMessage())).toMatchObject({ acknowledged: true });
    },
  );

  it("MSG-18 a sender that waits until its whole message is taken gets the refusal, too", async () => {
    const refuse = async ({ body }: Request) => {
      await body!.getReader().read(); // the first bytes, and no more
      return new Response(null, { status: 413 });
    };
    const listener = await listen({ address: "http://127.0.0.1:0", fetch: refuse });
    onTestFinished(() => listener.close());
    const agent = new Agent({ keepAlive: true });
    onTestFinished(() => agent.destroy());
    const posting = request(listener.address, { method: "POST", agent });
    const ends = Promise.all([once(posting, "response"), once(posting, "finish")]);
    posting.end(Buffer.alloc(20_000_000));
    const [[response]] = (await ends) as [[IncomingMessage], unknown];
    expect(response.resume().statusCode).toBe(413);
  });

  it("MSG-18 a receiver that throws is logged, and its sender gets status 500", async () => {
    const log: LogLine[] = [];
    const respond = async () => {
      throw new TypeError("secret");
    };
    const listener = await listen({
      address: "http://127.0.0.1:0",
      receiver: { respond, handle: respond, fetch, maxBodyBytes: 1 },
      logger: recordingLogger(log),
    });
    onTestFinished(() => listener.close());
    const failure = await failureOf(transport(), listener.address, newMessage());
    expect(failure.message).toContain("responded with status 500");
    expect(log).toMatchObject([
      { level: "error", message: "receiving failed", fields: { error: "TypeError" } },
    ]);
  });

  it("MSG-09 a port in use, an unknown scheme and bad options are refused", async () => {
    const listener = await listen({ address: "http://127.0.0.1:0", fetch });
    await expect(listen({ address: listener.address, fetch })).rejects.toThrow(/EADDRINUSE/);
    await listener.close();
    await expect(listen({ address: "ftp://127.0.0.1", fetch })).rejects.toThrow(
      /unknown scheme ftp:.*Known: http:/,
    );
    const respond = async () => ({ status: 200 });
    const receiver = { fetch, respond, handle: respond, maxBodyBytes: 1 };
    for (const what of [{}, { fetch, receiver }])
      await expect(listen({ address: "http://127.0.0.1:0", ...what })).rejects.toThrow(
        /pass receiver or fetch, not both/,
      );
    await expect(listen({ address: "http://127.0.0.1:0", fetch, port: 1 } as never)).rejects.toThrow(
      /option port/,
    );
    await expect(listen({ address: "http://127.0.0.1:0", fetch, stopMs: 0 })).rejects.toThrow(/stopMs/);
  });
});

describe("a process that sends and receives", () => {
  const unix = `unix://${freshPath()}`;
  it.each([
    ["http://127.0.0.1:0", {}],
    ["https://127.0.0.1:0", tls],
    [unix, {}],
    ["grpc://127.0.0.1:0", {}],
    ["grpcs://127.0.0.1:0", tls],
  ])(
    "MSG-09 %s: ends by itself after close, and also with connections that are kept for later",
    async (address, own) => {
      for (const end of ["", "idle"]) {
        const response = await runChild(
          "messaging/sends-and-ends-child.ts",
          address,
          JSON.stringify(own),
          end,
        );
        expect(response).toEqual({ acknowledged: true, duplicateDetected: false });
      }
    },
  );
});

it("MSG-09 listen refuses a service in place of its receiver's fetch", async () => {
  const service = { receiver: { fetch } } as unknown as typeof fetch;
  await expect(listen({ address: "http://127.0.0.1:0", fetch: service })).rejects.toThrow(
    /fetch must be a function, such as service\.receiver\.fetch/,
  );
});
