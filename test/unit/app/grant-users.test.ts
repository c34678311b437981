import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { userStatements } from "../../../src/app/prepare-databases.js";
import { postgresDialect } from "../../../src/sql/postgres/dialect.js";
import { sqlServerDialect } from "../../../src/sql/sqlserver/dialect.js";

const user = {
  name: "id-orders-prod-work",
  role: "oncebox_functions",
  clientId: "00000000-0000-4000-8000-000000000001",
  objectId: "00000000-0000-4000-8000-000000000002",
} as const;
const own = { schema: "orders", inbox: "Received", outbox: "Sent" };

describe.each([
  ["users-sqlserver.sql", sqlServerDialect],
  ["users-postgres.sql", postgresDialect],
] as const)("infra/sql/%s, as a migration runs it", (file, dialect) => {
  const script = readFileSync(`infra/sql/${file}`, "utf8");
  /** Everything in brackets or quotes: names of objects, columns aside. */
  const names = (texts: readonly string[]) =>
    [...texts.join("\n").matchAll(/[["](\w+)[\]"]\.[["](\w+)[\]"]/g)].map(
      ([, schema, name]) => `${schema}.${name}`,
    );

  it("FUN-10 grants rights on the app's own tables and procedures, whatever they are called", () => {
    const usual = names(userStatements(dialect, {}, [user], script));
    const chosen = names(userStatements(dialect, own, [user], script));
    expect(usual.length).toBeGreaterThan(20);
    expect(chosen).toEqual(
      usual.map((name) =>
        name
          .replace(/^infra\./, "orders.")
          .replace(/(?<=\.)(inbox|outbox)/i, (word) => (/^inbox/i.test(word) ? "Received" : "Sent")),
      ),
    );
    // a service's tables have names of their own
    expect(chosen.filter((name) => /infra|(?<!messages_)(?:inbox|outbox)/i.test(name))).toEqual([]);
  });
});
