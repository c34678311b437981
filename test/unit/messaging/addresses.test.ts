import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createTransports, type TransportsOptions } from "../../../src/messaging/destinations.js";
import {
  grpcTarget,
  httpTarget,
  parseAddress,
  socketPathOf,
} from "../../../src/messaging/transports/address.js";
import { inProcessTransport } from "../../../src/messaging/transports/in-process-transport.js";
import type { Transport } from "../../../src/messaging/transports/transport.js";
import { newMessage } from "../../contract/transports/support.js";
import { failureOf, sendTo } from "./transport-support.js";

const create = (options: TransportsOptions = {}) => createTransports(options);

const own: Transport = {
  schemes: ["carrier:"],
  check(address) {
    if (!address.endsWith("pigeon")) throw new TypeError("not a pigeon");
  },
  send: async () => ({ acknowledged: true, duplicateDetected: false }),
  async close() {
    throw new Error("closed");
  },
};

describe("addresses", () => {
  it.each([
    ["https://host:8443/_rf/receive", { host: "host", port: 8443, path: "/_rf/receive" }, true],
    ["https://host", { host: "host", path: "/_rf/receive" }, true],
    ["http://[::1]:4001/own", { host: "::1", port: 4001, path: "/own" }, false],
    ["unix:///tmp/rf-orders.sock", { socketPath: "/tmp/rf-orders.sock", path: "/_rf/receive" }, false],
    ["unix:///tmp/a%20b.sock?path=/own", { socketPath: "/tmp/a b.sock", path: "/own" }, false],
    ["pipe://rf-Orders", { socketPath: join(tmpdir(), "rf-Orders.sock"), path: "/_rf/receive" }, false],
  ])("MSG-19 %s", (address, options, isSecure) => {
    expect(httpTarget(address)).toMatchObject({ isSecure, options });
  });

  it("MSG-19 gRPC: host and port, with the method's path or without it", () => {
    const plain = { isSecure: false, authority: "Host:5001", path: "/RFReceiver/Receive" };
    expect(grpcTarget("grpc://Host:5001/RFReceiver/Receive")).toMatchObject(plain);
    expect(grpcTarget("grpc://Host:5001")).toMatchObject(plain);
    expect(grpcTarget("grpcs://[::1]:443/pkg.RFReceiver/Receive")).toMatchObject({
      isSecure: true,
      authority: "[::1]:443",
      path: "/pkg.RFReceiver/Receive",
    });
  });

  it("MSG-19 a pipe is a named pipe on Windows, and a socket in the temporary folder elsewhere", () => {
    const url = parseAddress("pipe://rf-orders");
    expect(socketPathOf(url, "win32")).toBe("\\\\.\\pipe\\rf-orders");
    expect(socketPathOf(url, "linux")).toBe(join(tmpdir(), "rf-orders.sock"));
  });

  it("MSG-19 a path that the operating system cannot take is refused, with its length", () => {
    const url = (length: number) => parseAddress(`unix:///${"x".repeat(length - 1)}`);
    expect(socketPathOf(url(107), "linux")).toHaveLength(107);
    expect(() => socketPathOf(url(108), "linux")).toThrow(/108 bytes.*107/);
    expect(() => socketPathOf(url(104), "darwin")).toThrow(/104 bytes.*103/);
    expect(() => socketPathOf(parseAddress("unix:///tmp/a.sock"), "win32")).toThrow(/pipe:\/\/name/);
  });

  it.each([
    ["unix://tmp/rf.sock", /three slashes/],
    ["unix://", /three slashes/],
    ["unix:///tmp/%zz.sock", /three slashes/],
    ["unix:///tmp/a%00.sock", /three slashes/],
    ["unix:///tmp/rf.sock?path=own", /path must begin/],
    ["unix:///tmp/rf.sock?path=/a%0d%0ab", /path must begin/],
    ["pipe://", /not the address of a pipe/],
    ["pipe://..", /not the address of a pipe/],
    ["pipe://a/b", /not the address of a pipe/],
    ["pipe://a%2fb", /not the address of a pipe/],
    ["grpc://host", /host:port/],
    ["grpc://host:1/Receive", /host:port/],
    ["grpc://user@host:1", /without a user/],
    ["inprocess://", /inprocess:\/\/serviceId/],
    ["inprocess://a/b", /inprocess:\/\/serviceId/],
    ["inprocess://%zz", /inprocess:\/\/serviceId/],
    ["http://", /not valid/],
    ["http://user:hunter2@:x", /not valid/],
  ])("MSG-19 %s is refused when the service is built, and no password is shown", (address, text) => {
    const resolve = () => create().resolve("inventory", { address });
    expect(resolve).toThrow(text);
    expect(resolve).not.toThrow(/hunter2/);
  });
});

describe("the choice of a transport", () => {
  it("MSG-09 an unknown scheme is refused with the list of the known ones", () => {
    const text =
      /Unknown scheme ftp:\/\/.*Known: http:\/\/ https:\/\/ unix:\/\/ pipe:\/\/ grpc:\/\/ grpcs:\/\/ inprocess:\/\//;
    expect(() => create().transportFor("ftp://host")).toThrow(text);
    expect(() => create().resolve("inventory", { address: "ftp://user:hunter2@host" })).toThrow(text);
    expect(() => create().resolve("inventory", { address: "ftp://user:hunter2@host" })).not.toThrow(
      /hunter2/,
    );
  });

  it.each([
    [{ address: "inventory:5000" }, undefined, "http://inventory:5000"],
    [{ address: "inventory:5000/own" }, "https", "https://inventory:5000/own"],
    [{ address: "inventory:5001", transport: "grpc" }, "http", "grpc://inventory:5001"],
    [{ address: "HTTPS://inventory", transport: "https" }, "grpc", "HTTPS://inventory"],
    [{ address: "unix:///run/inventory.sock" }, "grpc", "unix:///run/inventory.sock"],
    [{ transport: "pipe" }, "http", "pipe://rf-inventory"],
    [{ transport: "inprocess" }, "http", "inprocess://inventory"],
    [{}, "unix", "unix:///tmp/rf-inventory.sock"],
    [{}, "pipe", "pipe://rf-inventory"],
  ] as const)("MSG-09 MSG-19 %j with the default %s is %s", (destination, defaultTransport, address) => {
    const transports = create(defaultTransport === undefined ? {} : { defaultTransport });
    const resolved = transports.resolve("inventory", destination);
    expect(resolved.address).toBe(address);
    expect(resolved.transport).toBe(transports.transportFor(address));
  });

  it("MSG-09 MSG-19 a service without an address may have any id", async () => {
    const inProcess = inProcessTransport();
    inProcess.serve("order service?", { receive: own.send as never });
    const transports = create({ inProcess });
    for (const transport of ["inprocess", inProcess] as const) {
      const { address } = transports.resolve("order service?", { transport });
      expect(await sendTo(inProcess, address, newMessage())).toMatchObject({ acknowledged: true });
    }
    const { address } = transports.resolve("order service?", { transport: "unix" });
    expect(httpTarget(address).options.socketPath).toBe("/tmp/rf-order service?.sock");
  });

  it("MSG-09 what cannot work is refused when the service is built", () => {
    const { resolve } = create();
    expect(() => resolve("inventory", {})).toThrow(/inventory has no address.*http:\/\/host:port/);
    expect(() => resolve("inventory", { transport: "fax" as never })).toThrow(/must be one of http, https/);
    expect(() => resolve("inventory", { transport: "grpc", address: "http://host" })).toThrow(/grpc.*http:/);
    expect(() => create({ defaultTransport: "fax" as never })).toThrow(/defaultTransport must be one of/);
    expect(() => create({ retries: 1 } as never)).toThrow(/unknown option retries/);
  });

  it("MSG-09 a transport of one's own serves its scheme, or one destination, and is left open", async () => {
    const transports = create({ own: [own] });
    expect(transports.resolve("inventory", { address: "carrier://pigeon" }).transport).toBe(own);
    expect(() => transports.resolve("inventory", { address: "carrier://pidgin" })).toThrow("not a pigeon");
    expect(create().resolve("pigeon", { transport: own })).toEqual({
      address: "carrier://pigeon",
      transport: own,
    });
    await transports.close();
  });

  it("MSG-09 a transport of one's own can replace one of the package", () => {
    const replacement = { ...own, schemes: ["https:"] };
    const transports = create({ own: [replacement] });
    expect(transports.transportFor("https://host")).toBe(replacement);
    expect(transports.transportFor("http://host")).not.toBe(replacement);
  });
});

describe("the in-process transport", () => {
  const receiver = { receive: own.send as () => Promise<{ acknowledged: true; duplicateDetected: false }> };

  it("MSG-09 services can share one transport", async () => {
    const shared = inProcessTransport();
    shared.serve("inventory", receiver);
    expect(() => shared.serve("inventory", receiver)).toThrow(/served already/);
    const first = create({ inProcess: shared });
    const second = create({ inProcess: shared });
    await first.close();
    const { transport, address } = second.resolve("inventory", { transport: "inprocess" });
    expect(await sendTo(transport, address, newMessage())).toMatchObject({ acknowledged: true });
    await shared.close();
    await failureOf(transport, address, newMessage());
  });

  it("MSG-09 an unknown service is a failure that names it", async () => {
    const error = await failureOf(inProcessTransport(), "inprocess://inventory", newMessage());
    expect(error.message).toContain("No receiver serves inprocess://inventory");
  });

  it("MSG-22 a payload that cannot be copied is refused for good, and not quoted", async () => {
    const transport = inProcessTransport();
    transport.serve("inventory", receiver);
    const payload = { call: () => "4242" };
    const response = await sendTo(transport, "inprocess://inventory", newMessage(payload));
    expect(response).toMatchObject({ acknowledged: false, permanent: true });
    expect(response.error).toContain("cannot be copied");
    expect(response.error).not.toContain("4242");
  });

  it("MSG-09 a receiver that never returns is given up after timeoutMs", async () => {
    const transport = inProcessTransport({ timeoutMs: 20 });
    transport.serve("inventory", { receive: () => new Promise<never>(() => {}) });
    const error = await failureOf(transport, "inprocess://inventory", newMessage());
    expect(error.message).toContain("did not respond within 20 ms");
  });
});
