import { type OperatorReadStatements, type OperatorStatements, status } from "../dialect.js";
import { statement } from "../driver.js";
import type { QueueNames } from "../names.js";
import { epochMs, now } from "./expressions.js";
import { controlsTable } from "./names.js";

const control = (n: QueueNames) => `c.id, c.scope, c.name, c.paused, c.per_second, c.who,
  ${epochMs("c.changed_at")} as changed_at, (
    select count(*) from ${n.state} s where s.status = ${status.parked} and s.parked_by = c.id
  )::float8 as parked`;

export const readControls = (n: QueueNames): OperatorReadStatements["controls"] =>
  statement(
    "controls",
    `select ${control(n)}
from ${controlsTable(n)} c
order by c.id`,
  );

export const controlStatements = (n: QueueNames): Pick<OperatorStatements, "putControl" | "endControl"> => ({
  putControl: statement(
    "put control",
    `insert into ${controlsTable(n)} as c (scope, name, paused, per_second, refilled_at, who, changed_at)
values (:scope, :name, coalesce(:paused::boolean, false), :per_second::float8, ${now}, :who, ${now})
on conflict (scope, name) do update
set paused = coalesce(:paused::boolean, c.paused),
  per_second = coalesce(excluded.per_second, c.per_second),
  who = excluded.who,
  changed_at = excluded.changed_at
returning ${control(n)}`,
  ),
  endControl: statement(
    "end control",
    `update ${controlsTable(n)} c
set paused = c.paused and not :paused::boolean,
  per_second = case when :paused::boolean then c.per_second end,
  who = :who,
  changed_at = ${now}
where c.scope = :scope and c.name = :name
  and case when :paused::boolean then c.paused else c.per_second is not null end
returning ${control(n)}`,
  ),
});
