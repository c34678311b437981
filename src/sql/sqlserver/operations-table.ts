import { binary, unicodeLiteral } from "./expressions.js";
import { quote } from "./names.js";

/** Within a statement that writes to the table. */
export const operationsName = quote("oncebox_operations");

export const operationsTable = (schema: string): string => `${quote(schema)}.${operationsName}`;

/** What operators have done: to dead messages, and how far they came; pauses and limits. */
export const createOperations = (schema: string): string =>
  `if object_id(${unicodeLiteral(operationsTable(schema))}, N'U') is null
  create table ${operationsTable(schema)} (
    id uniqueidentifier not null,
    started_at datetime2(3) not null,
    who nvarchar(255) not null,
    action nvarchar(20) not null,
    queue nvarchar(100) ${binary} not null,
    filter nvarchar(max) not null,
    matched bigint not null constraint ${quote("oncebox_operations_Matched")} default 0,
    done bigint not null constraint ${quote("oncebox_operations_Done")} default 0,
    last_seq bigint not null constraint ${quote("oncebox_operations_LastSeq")} default 0,
    ended_at datetime2(3) null,
    -- who went on with it last, after an interruption
    resumed_by nvarchar(255) null,
    resumed_at datetime2(3) null,
    constraint ${quote("oncebox_operations_PK")} primary key clustered (id)
  )`;
