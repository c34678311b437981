import { status } from "../dialect.js";
import type { SqlStatement } from "../driver.js";
import type { QueueNames } from "../names.js";
import { callProcedure } from "./call-procedure.js";
import { binary } from "./expressions.js";
import { readPast } from "./procedures/procedure.js";
import { signatures } from "./signatures.js";

/** Pauses and limits; empty nearly always. */
export const controlsTable = (n: QueueNames): string => n.object("Controls");

/**
 * A row is a control: a pause, a limit, both, or neither when it has ended and its parked messages are being returned. Numbers
 * are never used again: they name the limits that a message has passed.
 */
export const createControls = (n: QueueNames): readonly string[] => [
  `create table ${controlsTable(n)} (
  id bigint identity(1, 1) not null,
  scope nvarchar(10) ${binary} not null,
  -- the topic or source; empty for the whole queue
  name nvarchar(255) ${binary} not null,
  paused bit not null,
  per_second float null,
  -- how many messages the limit lets pass, as of refilled_at
  tokens float not null constraint ${n.bare("Controls_Tokens")} default 1,
  refilled_at datetime2(3) not null,
  who nvarchar(255) not null,
  changed_at datetime2(3) not null,
  constraint ${n.bare("Controls_PK")} primary key clustered (id)
)`,
  // with what a claim asks for, so that it locks the key alone and not the row as well
  `create unique index ${n.bare("Controls_Key")} on ${controlsTable(n)} (scope, name) include (paused)`,
  `create index ${n.bare("_Parked")} on ${n.state} (parked_by, visible_at, seq) where status = ${status.parked}`,
];

/** A condition: the whole queue is paused. The pause may not be skipped while another transaction changes it. */
export const isPaused = (n: QueueNames): string =>
  `exists (
  select 1 from ${controlsTable(n)} c with (index(${n.bare("Controls_Key")}), forceseek)
  where c.scope = N'queue' and c.name = N'' and c.paused = 1
)`;

/** A condition: a claim may free a parked message. */
export const mayFree = (n: QueueNames): string => `exists (
  select 1 from ${controlsTable(n)} c with (${readPast})
  where c.paused = 0 and exists (
    select 1 from ${n.state} r with (index(${n.bare("_Parked")}), forceseek, ${readPast})
    where r.status = ${status.parked} and r.parked_by = c.id
  )
)`;

export const applyControls = (n: QueueNames): SqlStatement =>
  callProcedure(n, "apply controls", "ApplyControls", signatures.ApplyControls, { given_now: "@now" });
