import { randomUUID } from "node:crypto";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Metadata } from "@grpc/grpc-js";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { LoopbackAddress } from "../../support/loopback.js";
import { type Decision, decideFault, type Fault, faults } from "../../support/lossy/decide-fault.js";
import { startLossyProxy } from "../../support/lossy-proxy.js";
import {
  bodies,
  type EchoReceiver,
  type EchoSender,
  grpcSender,
  hashOf,
  httpOptions,
  httpSender,
  startGrpcEcho,
  startHttpEcho,
} from "./echo.js";

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

const always =
  (fault: Fault | "none", amount = 0.5) =>
  () => ({ fault, amount });

describe.each(wires)("$name", (wire) => {
  it("MSG-16 every kind of fault happens in its share, and nothing else is changed", async () => {
    const requests = 800;
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
    for (const fault of faults) expect(proxy.counts[fault], fault).toBeGreaterThan(10);

    expect(answered).toBe(requests - count(unanswered));
    expect(receiver.received.length).toBe(requests - count(deaf) + count(twice));
    const known = new Set(all.map(hashOf));
    expect(receiver.received.filter((hash) => !known.has(hash))).toEqual([]);
    const inOrder = [...known].filter((hash) => receiver.received.includes(hash));
    expect([...new Set(receiver.received)]).not.toEqual(inOrder);
  });

  it.each([0, 0.5, 0.999])("MSG-16 what is cut at %d is never whole for the other side", async (amount) => {
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

  it("MSG-16 a request that is held back arrives after later ones", async () => {
    const firstIsHeld = (index: number) =>
      ({ fault: index === 0 ? "reorder" : "none", amount: 0.3 }) as const;
    const { receiver, proxy, sender } = await startAll(wire, firstIsHeld, 50_000);
    const [first, second, third] = bodies(3) as [Buffer, Buffer, Buffer];
    const held = sender.send(first);
    await vi.waitFor(() => expect(proxy.arrived).toBe(1));
    await sender.send(second);
    await sender.send(third);
    await held;
    expect(receiver.received).toEqual([second, third, first].map(hashOf));
    expect(proxy.counts.reorder).toBe(1);
  });

  it("MSG-16 the sender sees a cut connection while the receiver is away, and its new address is used", async () => {
    const { receiver, proxy, sender } = await startAll(wire, always("none"));
    const [body] = bodies(1) as [Buffer];
    expect(await sender.send(body)).toEqual(body);
    await receiver.close();
    await expect(sender.send(body)).rejects.toThrow();
    const other = await wire.receiver(wire.address());
    toClose.push(other.close);
    proxy.target = other.address;
    expect(await sender.send(body)).toEqual(body);
    expect(other.received).toEqual([hashOf(body)]);
    expect(proxy.counts).toMatchObject({ none: 2, away: 1 });
  });

  it("MSG-16 closing ends what is held back", async () => {
    const { receiver, proxy, sender } = await startAll(wire, always("reorder"), 50_000);
    const [body] = bodies(1) as [Buffer];
    const ended = expect(sender.send(body)).rejects.toThrow();
    await vi.waitFor(() => expect(proxy.arrived).toBe(1));
    await proxy.close();
    await ended;
    expect(receiver.received).toEqual([]);
    expect(proxy.counts.away).toBe(1);
  });
});

it("MSG-16 heads of HTTP requests and answers pass unchanged", async () => {
  const { receiver, proxy } = await startAll(wires[0]!, always("none"));
  const headOf = (to: LoopbackAddress) =>
    new Promise<object>((resolve, reject) => {
      const headers = [
        "Host",
        "a.example",
        "X-Case",
        "1",
        "x-twice",
        "1",
        "x-twice",
        "2",
        "Connection",
        "close",
      ];
      request({ ...httpOptions(to), headers, agent: false }, (answer) => {
        const { statusCode, statusMessage, rawHeaders } = answer.resume();
        resolve({
          statusCode,
          statusMessage,
          rawHeaders: rawHeaders.filter((text) => !text.endsWith(" GMT")),
        });
      })
        .on("error", reject)
        .end();
    });
  expect(await headOf(proxy.address)).toEqual(await headOf(receiver.address));
});

it("MSG-16 a status of the gRPC receiver passes unchanged", async () => {
  const { proxy } = await startAll(wires[3]!, always("none"));
  const metadata = new Metadata();
  metadata.set("x-refuse", "yes");
  const sender = grpcSender(proxy.address as { port: number }, metadata);
  toClose.push(sender.close);
  await expect(sender.send(Buffer.from("x"))).rejects.toMatchObject({ code: 7, details: "refused" });
  expect(proxy.counts.none).toBe(1);
});
