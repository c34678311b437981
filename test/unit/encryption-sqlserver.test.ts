import { type AddressInfo, createServer } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { statement } from "../../src/sql/driver.js";
import { openSqlServer, type SqlServerOptions } from "../../src/sql/sqlserver/index.js";

/** A server that keeps the first bytes that it is sent and closes the connection. */
async function recordingServer() {
  let first: Buffer | undefined;
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", (data) => {
      first ??= data;
      socket.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    first: () => first,
    close: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}

const headerBytes = 8;
const preLogin = 0x12;
const encryption = { token: 1, values: ["off", "on", "not supported"] } as const;

/** What the client asks for in its PRELOGIN packet ([MS-TDS] 2.2.6.5): a list of token, offset and length, then the values. */
function askedEncryption(packet: Buffer): string | undefined {
  expect(packet[0]).toBe(preLogin);
  const options = packet.subarray(headerBytes);
  for (let at = 0; options[at] !== 0xff; at += 5) {
    if (options[at] === encryption.token) return encryption.values[options[options.readUInt16BE(at + 1)]!];
  }
  return undefined;
}

describe("encrypted connections to SQL Server", () => {
  let close: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const one of close) await one();
    close = [];
  });

  const firstBytes = async (options: (port: number) => SqlServerOptions): Promise<Buffer> => {
    const server = await recordingServer();
    const db = openSqlServer(options(server.port));
    close.push(db.close, server.close);
    await expect(db.driver.query(statement("one", "select 1 as one"), {})).rejects.toThrow();
    return server.first()!;
  };
  const url = (port: number, query = "") => `mssql://app:geheim@127.0.0.1:${port}/orders${query}`;

  it.each<readonly [string, (port: number) => SqlServerOptions]>([
    ["a url", (port) => ({ url: url(port) })],
    [
      "a config",
      (port) => ({
        config: { server: "127.0.0.1", port, user: "app", password: "geheim", database: "orders" },
      }),
    ],
    [
      "a connection string",
      (port) => ({
        connectionString: `Server=127.0.0.1,${port};Database=orders;User Id=app;Password=geheim`,
      }),
    ],
  ])("IBX-128 OBX-107 %s that says nothing of encryption asks for it", async (_, options) => {
    const bytes = await firstBytes(options);
    expect(askedEncryption(bytes)).toBe("on");
    expect(bytes.toString("latin1")).not.toMatch(/geheim|app/);
  });

  it("IBX-128 OBX-107 only encrypt=false turns it off", async () => {
    expect(askedEncryption(await firstBytes((port) => ({ url: url(port, "?encrypt=false") })))).toBe(
      "not supported",
    );
    expect(
      askedEncryption(
        await firstBytes((port) => ({
          connectionString: `Server=127.0.0.1,${port};Database=orders;User Id=app;Password=geheim;Encrypt=false`,
        })),
      ),
    ).toBe("not supported");
  });

  it("IBX-128 OBX-107 encrypt=strict begins with TLS, before anything else is sent", async () => {
    const tlsHandshake = 0x16;
    expect((await firstBytes((port) => ({ url: url(port, "?encrypt=strict") })))[0]).toBe(tlsHandshake);
  });
});
