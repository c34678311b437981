import { readFileSync } from "node:fs";
import { Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { describe, expect, inject, it } from "vitest";
import { openPostgres } from "../../../src/sql/postgres/index.js";
import { type ConnectedSocket, warnWithoutTls } from "../../../src/sql/postgres/pool.js";

const read = (path: string) =>
  readFileSync(fileURLToPath(new URL(`../../../${path}`, import.meta.url)), "utf8");

describe("the package", () => {
  const { scripts, dependencies, files } = JSON.parse(read("package.json"));

  it("runs nothing when it is installed", () => {
    for (const name of ["preinstall", "install", "postinstall", "prepare", "preprepare", "postprepare"])
      expect(scripts).not.toHaveProperty(name);
    expect(files).not.toContain("binding.gyp");
  });

  it("has one dependency, which runs nothing either", () => {
    expect(Object.keys(dependencies)).toEqual(["zod"]);
    const { packages } = JSON.parse(read("package-lock.json"));
    expect(packages["node_modules/zod"].hasInstallScript).toBeUndefined();
  });

  it("says where to report a vulnerability, and what it does not defend against", () => {
    expect(read("SECURITY.md")).toContain("docs/threat-model.md");
    expect(read("docs/threat-model.md")).toContain("## What is not defended against");
  });
});

describe("PostgreSQL without TLS", () => {
  const warnings = (socket: ConnectedSocket) => {
    const said: string[] = [];
    warnWithoutTls(socket, (text, { code }) => said.push(`${code} ${text}`));
    return said;
  };

  it("a host that is not this machine is warned of, once, with what to set", () => {
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
  ])("TLS, this machine and local sockets are not: %j", (socket) => {
    expect(warnings(socket)).toEqual([]);
  });

  it("a connection of the pool is looked at when it is made", async () => {
    const warnings: Error[] = [];
    const warned = (warning: Error) => void warnings.push(warning);
    process.on("warning", warned);
    // A socket to this machine that says otherwise of itself.
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
