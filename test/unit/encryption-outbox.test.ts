import { type AddressInfo, createServer, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { createOutbox } from "../../src/outbox/outbox.js";
import { openPostgres } from "../../src/sql/postgres/index.js";

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

describe("encrypted connections of an outbox", () => {
  let close: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const one of close) await one();
    close = [];
  });

  it.each(["require", "verify-full"])(
    "OBX-107 sslmode=%s asks for encryption first and sends nothing when there is none",
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

  it("OBX-107 the driver's own ssl settings count too", async () => {
    const server = await plainServer();
    const config = { host: "127.0.0.1", port: server.port, user: "app", password: "geheim", ssl: true };
    const db = openPostgres({ config });
    close.push(db.close, server.close);

    await expect(createOutbox(db).stats()).rejects.toThrow(/SSL/);
    expect(server.received().subarray(0, 8)).toEqual(sslRequest);
    expect(server.received().toString("latin1")).not.toMatch(/geheim/);
  });
});
