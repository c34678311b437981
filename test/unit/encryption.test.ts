import { chmod, chown, copyFile, readFile, stat } from "node:fs/promises";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { createInbox, createOutbox, migrate, statement } from "../../src/index.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { openSqlServer, type SqlServerOptions } from "../../src/sql/sqlserver/index.js";
import { type StartedServer, startPostgres } from "../support/start-postgres.js";

/** A server that records what it is sent, and answers that it has no encryption. */
async function plainServer() {
  const received: Buffer[] = [];
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => {});
    socket.on("data", (data) => {
      received.push(data);
      socket.write("N");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    received: () => Buffer.concat(received),
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const sslRequest = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]);

describe("a PostgreSQL server without encryption", () => {
  let close: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const one of close) await one();
    close = [];
  });

  it.each(["require", "verify-full"])(
    "IBX-128 OBX-107 sslmode=%s asks for encryption first and sends nothing when there is none",
    async (mode) => {
      const server = await plainServer();
      const db = openPostgres({
        url: `postgres://app:geheim@127.0.0.1:${server.port}/orders?sslmode=${mode}`,
      });
      close.push(db.close, server.close);
      const enqueued = createOutbox(db).enqueue({ topic: "card", payload: "4111-1111" });

      await expect(enqueued).rejects.toThrow(/SSL/);
      expect(server.received().subarray(0, 8)).toEqual(sslRequest);
      expect(server.received().length % 8).toBe(0);
      expect(server.received().toString("latin1")).not.toMatch(/app|geheim|orders|4111/);
    },
  );

  it("IBX-128 OBX-107 so do the driver's own ssl settings", async () => {
    const server = await plainServer();
    const config = { host: "127.0.0.1", port: server.port, user: "app", password: "geheim", ssl: true };
    const db = openPostgres({ config });
    close.push(db.close, server.close);

    await expect(createOutbox(db).stats()).rejects.toThrow(/SSL/);
    expect(server.received().subarray(0, 8)).toEqual(sslRequest);
    expect(server.received().toString("latin1")).not.toMatch(/geheim/);
  });
});

const file = (name: string) => fileURLToPath(new URL(`../support/tls/${name}`, import.meta.url));

/** Gives a running server its certificate, which it loads without a restart. */
async function turnOnTls(url: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  const { rows } = await client.query<{ data_directory: string }>("show data_directory");
  const folder = rows[0]!.data_directory;
  const { uid, gid } = await stat(folder);
  for (const name of ["server.crt", "server.key"]) {
    const copy = join(folder, name);
    await copyFile(file(name), copy);
    await chmod(copy, 0o600); // or the server refuses it
    await chown(copy, uid, gid);
  }
  await client.query("alter system set ssl = on");
  await client.query("select pg_reload_conf()");
  await client.end();
}

describe.skipIf(process.env.ONCEBOX_TEST_POSTGRES_URL)("an encrypted connection to PostgreSQL", () => {
  let server: StartedServer;
  beforeAll(async () => {
    server = await startPostgres();
    await turnOnTls(server.url);
  });
  afterAll(() => server?.stop());

  it("IBX-128 OBX-107 everything goes through TLS, and the server's certificate is checked", async () => {
    const ca = await readFile(file("server.crt"), "utf8");
    const db = openPostgres({ url: server.url, config: { ssl: { ca } } });
    await expect.poll(() => migrate(db).then(() => "up")).toBe("up"); // the server reloads its settings a moment later
    const inbox = createInbox(db);
    expect(await inbox.receive({ source: "s", messageId: "1", topic: "t", payload: "" })).toBe("enqueued");
    expect(await createOutbox(db).enqueue({ topic: "t", payload: "" })).toBeDefined();
    const [row] = await db.driver.query(
      statement("tls", "select ssl, version from pg_stat_ssl where pid = pg_backend_pid()"),
      {},
    );
    expect(row).toMatchObject({ ssl: true, version: expect.stringMatching(/^TLSv1\.[23]$/) });
    await db.close();
  });

  it("IBX-128 OBX-107 a server with a self-signed certificate is refused", async () => {
    const db = openPostgres({ url: `${server.url}?sslmode=verify-full` });
    await expect(migrate(db)).rejects.toThrow(/self-signed certificate/);
    await db.close();
  });
});

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
  ])("IBX-128 OBX-107 %s that does not mention encryption asks for it", async (_, options) => {
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
