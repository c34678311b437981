import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { mayScan, readsOfAll, scansIn } from "../../scripts/sqlserver-plan-scans.js";
import { renderSchema } from "../../src/sql/migrate.js";
import { sqlServerDialect } from "../../src/sql/sqlserver/dialect.js";
import { operatorReads } from "../../src/sql/sqlserver/operators.js";
import { procedures as proceduresOf } from "../../src/sql/sqlserver/queue.js";
import { startTdsPeer } from "../support/tds-peer.js";

const operation = (operator: string, table: string, index: string, inner = "") =>
  `<RelOp NodeId="1" PhysicalOp="${operator}" LogicalOp="x" EstimateRows="1"><OutputList /><IndexScan Ordered="1"><Object Database="[db]" Schema="[s]" Table="[${table}]" Index="[${index}]" />${inner}</IndexScan></RelOp>`;

describe("scans in a plan of SQL Server", () => {
  it("ADD-01 finds scans of the queues' tables, and neither seeks nor table variables", () => {
    const plan = `<ShowPlanXML>${[
      operation("Clustered Index Seek", "InboxState", "InboxState_PK"),
      operation("Clustered Index Scan", "@picked", "PK"),
      `<RelOp PhysicalOp="Nested Loops"><NestedLoops>${operation("Clustered Index Scan", "InboxState", "InboxState_PK")}${operation("Index Seek", "Inbox", "Inbox_Key")}</NestedLoops></RelOp>`,
      operation("Index Scan", "InboxPartitionChanges", "InboxPartitionChanges_PK"),
    ].join("")}</ShowPlanXML>`;
    const scans = scansIn("Inbox_Ack", plan);
    expect(scans.map(({ table, operator }) => [table, operator])).toEqual([
      ["InboxState", "Clustered Index Scan"],
      ["InboxPartitionChanges", "Index Scan"],
    ]);
    expect(scans.map(mayScan)).toEqual([false, true]);
    expect(scansIn("Inbox_List", plan).map(mayScan)).toEqual([true, true]);
    // the reaper looks at every unfinished message; a claim must not
    expect(scansIn("Inbox_Reap", plan).map(mayScan)).toEqual([true, true]);
    expect(scansIn("Inbox_Claim", plan).map(mayScan)).toEqual([false, true]);
  });

  const { names, defaults } = sqlServerDialect;
  const queues = [
    names("inbox", defaults.schema, defaults.inbox),
    names("outbox", defaults.schema, defaults.outbox),
  ];
  const reads = queues.flatMap((n) =>
    Object.values(operatorReads(n)).map(({ name, body }) => ({
      name: `${n.table} ${name}`,
      text: body,
    })),
  );
  const procedures = queues.flatMap((n) =>
    proceduresOf(n).map(({ suffix, text }) => ({ name: `${n.table}_${suffix}`, text })),
  );
  /** The first column of each index, by which a seek begins. */
  const firstColumns = new Map(
    [
      ...renderSchema(sqlServerDialect).matchAll(
        /(?:index|constraint) \[(\w+)\] (?:on \S+|primary key clustered|unique nonclustered) \((\w+)/g,
      ),
    ].map(([, index, column]) => [index!, column!]),
  );

  it("ADD-01 IBX-030 OBX-017 a read without FORCESEEK has a range of its index, or is one that may scan", () => {
    const table =
      /(?:from|join) \[infra\]\.\[((?:In|Out)box\w*)\] ([a-z])\b(?: with \(((?:[^()]|\([^()]*\))*)\))?/g;
    let scans = 0;
    for (const { name, text } of [...procedures, ...reads])
      for (const found of text.matchAll(table)) {
        const [, read, alias, hints = ""] = found;
        if (/forceseek/.test(hints)) continue;
        const index = /index\(\[(\w+)\]\)/.exec(hints)?.[1] ?? `${read}_PK`;
        expect(firstColumns.has(index), `${name}: ${index}`).toBe(true);
        const rest = text.slice(found.index, text.indexOf(";", found.index));
        if (new RegExp(`\\b${alias}\\.${firstColumns.get(index)} (=|<=?|>=?) `).test(rest)) continue;
        scans++;
        expect(
          mayScan({ procedure: name, table: read!, index, operator: "Index Scan" }),
          `${name}: ${index}`,
        ).toBe(true);
      }
    expect(scans).toBeGreaterThan(10);
    for (const one of readsOfAll)
      expect(
        reads.map(({ name }) => name),
        one,
      ).toContain(`Inbox ${one}`);
  });

  it("ADD-01 the command says so where the server has no plans to give, and asks for a database", async () => {
    const run = (...args: readonly string[]) =>
      promisify(execFile)(process.execPath, ["--import", "tsx", "scripts/sqlserver-plans.ts", ...args]);
    const peer = await startTdsPeer();
    try {
      const { stdout } = await run(`mssql://app:x@127.0.0.1:${peer.port}/shop?encrypt=false`);
      expect(stdout).toContain("This server gives no plans");
    } finally {
      await peer.close();
    }
    await expect(run()).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringContaining("Name a database"),
    });
  });
});
