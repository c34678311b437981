import { describe, expect, it } from "vitest";
import { mayScan, scansIn } from "../../scripts/sqlserver-plan-scans.js";

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
  });
});
