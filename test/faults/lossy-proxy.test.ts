import { createHash, randomBytes, randomUUID } from "node:crypto";
import { Agent, createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { Client, credentials, Metadata, Server, ServerCredentials, status } from "@grpc/grpc-js";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type LoopbackAddress, listenOn } from "../support/loopback.js";
import { type Decision, decideFault, type Fault, faults } from "../support/lossy/decide-fault.js";
import { startLossyProxy } from "../support/lossy-proxy.js";
import { openSockets } from "../support/open-sockets.js";

interface Wire {
  readonly name: string;
  readonly protocol: "http" | "grpc";
  /** A new address to listen on. */
  address(): LoopbackAddress;
  receiver(at: LoopbackAddress): Promise<EchoReceiver>;
  sender(to: LoopbackAddress): EchoSender;
}

const anyPort = () => ({ port: 0 });
const anySocket = () => ({ path: join(tmpdir(), `lossy-${randomUUID()}.sock`) });
const http = { protocol: "http", receiver: startHttpEcho } as const;
const wires: readonly Wire[] = [
  { ...http, name: "HTTP over TCP", address: anyPort, sender: httpSender },
  { ...http, name: "HTTP in chunks", address: anyPort, sender: (to) => httpSender(to, "/chunked") },
  { ...http, name: "HTTP over a Unix socket", address: anySocket, sender: httpSender },
  {
    name: "gRPC",
    protocol: "grpc",
    address: anyPort,
    receiver: startGrpcEcho,
    sender: (to) => grpcSender(to as { port: number }),
  },
];

const deaf: readonly Fault[] = ["drop-request", "cut-request"];
const unanswered: readonly Fault[] = [...deaf, "drop-answer", "cut-answer"];
const twice: readonly Fault[] = ["duplicate", "late-duplicate"];

/** The sockets and servers of this process. Its timers are not counted: the test runner has some. */
const handles = () =>
  process
    .getActiveResourcesInfo()
    .filter((name) => /TCP|Pipe|HTTP/.test(name))
    .sort();
let handlesBefore: readonly string[] = [];
let toClose: (() => unknown)[] = [];
beforeEach(() => {
  handlesBefore = handles();
  toClose = [];
});
afterEach(async () => {
  for (const close of toClose.reverse()) await close();
  // the end of a handle takes some turns of the event loop
  await vi.waitFor(() => expect(handles()).toEqual(handlesBefore), { timeout: 10_000 });
});

async function startAll(wire: Wire, decide: (index: number) => Decision, maxHoldMs = 1_000) {
  const receiver = await wire.receiver(wire.address());
  const proxy = await startLossyProxy({
    protocol: wire.protocol,
    listen: wire.address(),
    target: receiver.address,
    decide,
    maxHoldMs,
  });
  const sender = wire.sender(proxy.address);
  toClose.push(receiver.close, proxy.close, sender.close);
  return { receiver, proxy, sender };
}

describe.each(wires)("$name", (wire) => {
  it("every kind of fault happens as often as decided, and nothing else is changed", async () => {
    const requests = 400;
    const decide = (index: number) => decideFault({ seed: wire.name, share: 0.4 }, index);
    const { receiver, proxy, sender } = await startAll(wire, decide);
    const all = bodies(requests);
    let answered = 0;
    const sendFrom = async (first: number): Promise<void> => {
      for (let i = first; i < requests; i += 20) {
        const answer = await sender.send(all[i]!).catch(() => undefined);
        if (answer === undefined) continue;
        expect(answer.equals(all[i]!)).toBe(true);
        answered++;
      }
    };
    await Promise.all(Array.from({ length: 20 }, (_, first) => sendFrom(first)));
    await proxy.idle();

    const decided = Array.from({ length: requests }, (_, index) => decide(index).fault);
    const count = (kinds: readonly string[]) => decided.filter((kind) => kinds.includes(kind)).length;
    // a request that is held back at the very end has nobody to overtake it
    const { delay, reorder, ...others } = proxy.counts;
    expect(others).toEqual({
      ...Object.fromEntries(Object.keys(others).map((kind) => [kind, count([kind])])),
      away: 0,
    });
    expect(delay + reorder).toBe(count(["delay", "reorder"]));
    for (const fault of faults) expect(proxy.counts[fault], fault).toBeGreaterThan(5);

    expect(answered).toBe(requests - count(unanswered));
    expect(receiver.received.length).toBe(requests - count(deaf) + count(twice));
    const known = new Set(all.map(hashOf));
    expect(receiver.received.filter((hash) => !known.has(hash))).toEqual([]);
    const inOrder = [...known].filter((hash) => receiver.received.includes(hash));
    expect([...new Set(receiver.received)]).not.toEqual(inOrder);
  });

  it.each([0, 0.999])("a message that is cut at %d never arrives whole", async (amount) => {
    const kinds: readonly Fault[] = ["cut-request", "cut-answer"];
    const { receiver, proxy, sender } = await startAll(wire, (index) => ({
      fault: kinds[index % 2]!,
      amount,
    }));
    for (const body of bodies(10)) await expect(sender.send(body)).rejects.toThrow();
    await proxy.idle();
    expect(receiver.received.length).toBe(5);
    expect(proxy.counts).toMatchObject({ "cut-request": 5, "cut-answer": 5, none: 0, away: 0 });
  });
});

/** A receiver that returns the bytes that it got, and notes them. */
interface EchoReceiver {
  readonly address: LoopbackAddress;
  /** The hashes of all bodies, in the order in which they arrived whole. */
  readonly received: readonly string[];
  close(): Promise<void>;
}

interface EchoSender {
  /** Rejects when there is no whole answer. */
  send(body: Buffer): Promise<Buffer>;
  close(): void;
}

const hashOf = (body: Buffer) => createHash("sha256").update(body).digest("hex");

/** Bodies of all lengths, none like another. */
const bodies = (count: number) =>
  Array.from({ length: count }, (_, i) =>
    Buffer.concat([Buffer.from(`${i} `), randomBytes((i * 97) % 3_000)]),
  );

async function startHttpEcho(listen: LoopbackAddress): Promise<EchoReceiver> {
  const received: string[] = [];
  const sockets = openSockets();
  const server = createServer(async (incoming, response) => {
    const body = await buffer(incoming).catch(() => undefined);
    if (body === undefined) return;
    received.push(hashOf(body));
    response.setHeader("x-headers", incoming.rawHeaders.join("|"));
    if (incoming.url === "/chunked") response.write(body.subarray(0, 1));
    response.end(incoming.url === "/chunked" ? body.subarray(1) : body);
  });
  server.on("connection", (socket) => sockets.add(socket));
  const address = await listenOn(server, listen);
  return {
    address,
    received,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      sockets.destroyAll();
      await closed;
    },
  };
}

const httpOptions = (to: LoopbackAddress) =>
  "path" in to ? { socketPath: to.path } : { host: "127.0.0.1", port: to.port };

function httpSender(to: LoopbackAddress, path = "/echo"): EchoSender {
  const agent = new Agent({ keepAlive: true });
  return {
    send: (body) =>
      new Promise((resolve, reject) => {
        // without a length of its own, a body in two pieces is sent in chunks
        const outgoing = request({ ...httpOptions(to), agent, path, method: "POST" }, (answer) => {
          buffer(answer).then(resolve, reject);
        });
        outgoing.on("error", reject);
        if (path === "/chunked") outgoing.write(body.subarray(0, 1));
        outgoing.end(path === "/chunked" ? body.subarray(1) : body);
      }),
    close: () => agent.destroy(),
  };
}

const echo = "/test.Echo/Echo";
const same = (bytes: Buffer) => bytes;

async function startGrpcEcho(): Promise<EchoReceiver> {
  const received: string[] = [];
  const server = new Server();
  server.register<Buffer, Buffer>(
    echo,
    (
      call: { request: Buffer; metadata: Metadata },
      callback: (error: object | null, value?: Buffer) => void,
    ) => {
      received.push(hashOf(call.request));
      if (call.metadata.get("x-refuse").length > 0)
        callback({ code: status.PERMISSION_DENIED, details: "refused" });
      else callback(null, call.request);
    },
    same,
    same,
    "unary",
  );
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  return {
    address: { port },
    received,
    async close() {
      server.forceShutdown();
    },
  };
}

function grpcSender(to: { readonly port: number }, metadata = new Metadata()): EchoSender {
  const client = new Client(`127.0.0.1:${to.port}`, credentials.createInsecure());
  return {
    send: (body) =>
      new Promise((resolve, reject) => {
        client.makeUnaryRequest(echo, same, same, body, metadata, (error, answer) =>
          error ? reject(error) : resolve(answer!),
        );
      }),
    close: () => client.close(),
  };
}
