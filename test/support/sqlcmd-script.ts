import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { executeAgain, guard, tablesHeader } from "../../scripts/sqlcmd-schema.js";
import { sqlServerDialect } from "../../src/sql/sqlserver/dialect.js";
import { sqlcmdBatches } from "./sqlcmd-batches.js";

export interface ScriptNames {
  readonly schema: string;
  readonly inbox: string;
  readonly outbox: string;
}

const folder = new URL("../../infra/sql/", import.meta.url);
export const readScript = (file: string): string => readFileSync(new URL(basename(file), folder), "utf8");

/** The batches of infra/sql/sqlserver.sql, after a DBA has changed the names in it. */
export function scriptBatches(names: ScriptNames = sqlServerDialect.defaults): readonly string[] {
  const { defaults } = sqlServerDialect;
  const changes = [
    [`:setvar Schema ${defaults.schema}\n`, `:setvar Schema "${names.schema}"\n`],
    [`:setvar Queue ${defaults.inbox}\n`, `:setvar Queue "${names.inbox}"\n`],
    [`:setvar Queue ${defaults.outbox}\n`, `:setvar Queue "${names.outbox}"\n`],
  ] as const;
  return sqlcmdBatches("./sqlserver.sql", (path) =>
    changes.reduce((text, [from, to]) => text.replace(from, to), readScript(path)),
  );
}

/** The same without what the script has besides the schema. */
export const schemaOfScript = (names?: ScriptNames): readonly string[] => {
  const [first, second, ...batches] = scriptBatches(names);
  const expected = guard.replaceAll("$(Schema)", names?.schema ?? sqlServerDialect.defaults.schema);
  if (!first?.endsWith(executeAgain) || second !== expected)
    throw new Error(`The script does not begin with its guard, but with ${first}\n${second}`);
  return batches.map((batch) => batch.replace(tablesHeader, ""));
};
