import { Socket } from "node:net";
import { describe, expect, inject, it } from "vitest";
import { openPostgres } from "../../../src/sql/postgres/index.js";
import { type ConnectedSocket, warnWithoutTls } from "../../../src/sql/postgres/pool.js";

describe("PostgreSQL without TLS", () => {
  const warnings = (socket: ConnectedSocket) => {
    const said: string[] = [];
    warnWithoutTls(socket, (text, { code }) => said.push(`${code} ${text}`));
    return said;
  };

  it("warns once about a host that is not this machine, with the setting to use", () => {
    expect(warnings({ remoteAddress: "10.0.0.7" })).toEqual([
      expect.stringMatching(/WITHOUT_TLS.*sslmode=verify-full/),
    ]);
    expect(warnings({ remoteAddress: "10.0.0.7" })).toEqual([]);
  });

  it.each([
    { remoteAddress: "10.0.0.8", encrypted: true },
    { remoteAddress: "127.0.0.1" },
    { remoteAddress: "::ffff:127.0.0.1" },
    { remoteAddress: "::1" },
    {},
  ])("does not warn about TLS, this machine or local sockets: %j", (socket) => {
    expect(warnings(socket)).toEqual([]);
  });

  it("checks a connection of the pool when it is made", async () => {
    const warnings: Error[] = [];
    const warned = (warning: Error) => void warnings.push(warning);
    process.on("warning", warned);
    // A socket to this machine with another address.
    const stream = () => Object.defineProperty(new Socket(), "remoteAddress", { value: "10.0.0.9" });
    const db = openPostgres({ config: { connectionString: inject("postgresUrl"), stream } });
    await db.driver.query({ name: "test", text: "select 1", unprepared: true }, {});
    await db.close();
    await expect
      .poll(() => warnings.map(({ message }) => message).join())
      .toMatch(/10\.0\.0\.9 .*without TLS/);
    process.off("warning", warned);
  });
});
