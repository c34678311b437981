import { describe, expect, it } from "vitest";
import { operatorDialects } from "../../../src/operators/operator-dialects.js";
import type { Dialect } from "../../../src/sql/dialect.js";
import { schemaBatches } from "../../../src/sql/migrate.js";
import { postgresDialect } from "../../../src/sql/postgres/dialect.js";
import { sqliteDialect } from "../../../src/sql/sqlite/dialect.js";
import { sqlServerDialect } from "../../../src/sql/sqlserver/dialect.js";
import { furtherHostileNames, hostileNames } from "../../contract/migration/hostile-names.js";
import { sqlTokens } from "../../support/attacks/sql-tokens.js";

const dialects: readonly Dialect[] = [sqlServerDialect, postgresDialect, sqliteDialect];
const hostile = [...hostileNames("victim"), ...furtherHostileNames("victim")];

/** Every text of SQL that a dialect makes of names. */
async function textsOf(dialect: Dialect, name: string): Promise<readonly string[]> {
  const [schema, inbox, outbox] = [name, `${name}1`, `${name}2`];
  const options = { blockOnDead: true, reviveDead: true };
  const [incoming, outgoing] = [
    dialect.names("inbox", schema, inbox),
    dialect.names("outbox", schema, outbox),
  ];
  const { changes, reads } = await operatorDialects[dialect.name]();
  const statements = [
    dialect.receiving(incoming, options),
    dialect.inbox(incoming, options),
    dialect.outbox(outgoing, options),
    dialect.keys(incoming),
    ...[incoming, outgoing].flatMap((queue) => [changes(queue), reads(queue)]),
    [dialect.ackAndEnqueue?.(incoming, outgoing), dialect.pollStatement?.(incoming, outgoing)],
    [dialect.ledger.applied(schema)],
  ].flatMap((group) => Object.values(group) as ({ readonly text: string } | undefined)[]);
  return [
    ...schemaBatches(dialect, { schema, inbox, outbox }),
    ...dialect.sentView(outgoing),
    ...statements.flatMap((statement) => statement?.text ?? []),
  ];
}

const tokensOf = async (dialect: Dialect, name: string) =>
  (await textsOf(dialect, name)).map((text) => sqlTokens(text, dialect.name));

describe.each(dialects.map((dialect) => [dialect.name, dialect] as const))(
  "names on %s",
  (_name, dialect) => {
    it.each(hostile)("MID-01 %j is nothing but a name, in every statement and script", async (name) => {
      const plain = await tokensOf(dialect, "marker7");
      expect(plain.length).toBeGreaterThan(60);
      const expected = plain.map((tokens) => tokens.map((token) => token.replaceAll("marker7", () => name)));
      expect(await tokensOf(dialect, name)).toEqual(expected);
    });

    it("MID-01 a name that is not quoted would be found", () => {
      const made = (name: string) => sqlTokens(`select * from ${name} where a = 'b'`, dialect.name);
      expect(made('"x"; drop table victim; --"')).not.toEqual(made('"x"'));
    });
  },
);
