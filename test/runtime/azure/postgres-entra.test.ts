import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connectionSettings } from "../../../src/sql/postgres/entra.js";
import { classify } from "../../../src/sql/postgres/faults.js";
import { openPostgres } from "../../../src/sql/postgres/index.js";
import { query } from "../../infra/own-database.js";
import { type StartedServer, startPostgres } from "../../support/start-postgres.js";
import { type ManagedIdentity, startManagedIdentity } from "./managed-identity.js";

const identityName = "id-orders-prod-work";

describe("PostgreSQL with a managed identity", () => {
  let server: StartedServer;
  let identity: ManagedIdentity;
  let folder: string;
  const before = { ...process.env };

  beforeAll(async () => {
    // As Azure does: the password comes as it is, because the server must read the token.
    folder = await mkdtemp(join(tmpdir(), "oncebox-entra-"));
    await chmod(folder, 0o755); // the server runs as another user
    const rules = join(folder, "pg_hba.conf");
    await writeFile(rules, "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 password\n");
    [server, identity] = await Promise.all([startPostgres([`hba_file=${rules}`]), startManagedIdentity()]);
    Object.assign(process.env, identity.env);
    await admin(`create role "${identityName}" login`);
  });
  afterAll(async () => {
    process.env = before;
    await identity?.stop();
    await server?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const admin = async (sql: string): Promise<void> => {
    const db = openPostgres({ url: server.url, maxConnections: 1 });
    await query(db, sql).finally(() => db.close());
  };
  /** The server accepts this token alone, as Azure accepts none that has expired. */
  const accept = (token: string) => admin(`alter role "${identityName}" password '${token}'`);
  const open = () => {
    const target = new URL(server.url);
    target.username = identityName;
    return openPostgres({ url: `${target.href}?authentication=entra&sslmode=disable`, maxConnections: 2 });
  };
  const whoAmI = "select current_user as name, pg_backend_pid() as pid";

  it("FUN-10 FUN-12 signs in with a token of the identity, and every new connection with one that is still valid", async () => {
    const first = identity.issueNext({ lifetimeSeconds: 60 });
    await accept(first);
    const db = open();
    try {
      const [row] = await query(db, whoAmI);
      expect(row!.name).toBe(identityName);
      expect(identity.resources).toEqual(["https://ossrdbms-aad.database.windows.net"]);
      // An open connection outlives its token. One that is lost is made again, with another token.
      await accept(identity.issueNext({ lifetimeSeconds: 24 * 3_600 }));
      expect((await query(db, whoAmI))[0]!.pid).toBe(row!.pid);
      await admin(`select pg_terminate_backend(${row!.pid})`);
      await expect
        .poll(() =>
          query(db, whoAmI).then(
            ([one]) => one!.pid,
            () => row!.pid,
          ),
        )
        .not.toBe(row!.pid);
      expect(identity.resources).toHaveLength(2);
      // A token that is valid for long is not asked for again.
      const more = open();
      await query(more, whoAmI).finally(() => more.close());
      expect(identity.resources).toHaveLength(2);
    } finally {
      await db.close();
    }
  });

  it("FUN-12 a token that the server refuses is an error without the token, and nothing is retried with it", async () => {
    await accept("another");
    const db = open();
    const failure = await query(db, whoAmI).then(
      () => undefined,
      (error: Error & { code: string }) => error,
    );
    await db.close();
    expect(failure).toMatchObject({ code: "28P01" });
    expect(JSON.stringify({ ...failure, text: String(failure) })).not.toContain("eyJ");
    expect(classify(failure)).toBe("permanent");
    expect(classify({ code: "ONCEBOX_ENTRA_TOKEN" })).toBe("rolledBack"); // nothing was sent
  });
});

describe("the settings of a URL with authentication=entra", () => {
  const host = "psql-orders.postgres.database.azure.com";

  it("FUN-10 a token goes to a server whose certificate was verified, and to no other", () => {
    const { password, ...settings } = connectionSettings(
      `postgres://id-orders-prod-work@${host}/oncebox?authentication=entra&application_name=orders`,
    );
    expect(settings).toEqual({
      host,
      port: 5432,
      user: "id-orders-prod-work",
      database: "oncebox",
      ssl: true,
      application_name: "orders",
    });
    expect(password).toBeTypeOf("function");
    for (const mode of ["require", "verify-ca", "verify-full"])
      expect(connectionSettings(`postgres://u@${host}/d?sslmode=${mode}&authentication=entra`).ssl).toBe(
        true,
      );
    for (const mode of ["disable", "no-verify", "prefer", "allow"])
      expect(() => connectionSettings(`postgres://u@${host}/d?sslmode=${mode}&authentication=entra`)).toThrow(
        "sslmode=verify-full",
      );
  });

  it.each([
    [`postgres://u:secret@${host}/d?authentication=entra`, "no password"],
    [`postgres://${host}/d?authentication=entra`, "needs a user"],
    [`postgres://u@${host}?authentication=entra`, "a database"],
    [`postgres://u@${host}/d?authentication=entra&host=elsewhere`, '"host"'],
    [`postgres://u@${host}/d?authentication=entra&sslrootcert=/tmp/x`, '"sslrootcert"'],
    [`postgres://u@${host}/d?authentication=entra&authentication=password`, "more than once"],
  ])("refuses %s", (url, why) => {
    expect(() => connectionSettings(url)).toThrow(why);
    expect(() => connectionSettings(url)).not.toThrow("secret");
  });

  it("leaves every other URL to the driver", () => {
    const url = "postgres://u:p@host/d?sslmode=verify-full";
    expect(connectionSettings(url)).toEqual({ connectionString: url });
    expect(connectionSettings(undefined)).toEqual({});
  });
});
