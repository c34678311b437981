import { type OperatorReadStatements, type OperatorStatements, status } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { now } from "./expressions.js";
import { controlsTable } from "./names.js";
import { steps } from "./steps.js";

const control = (n: QueueNames, c: string) => `id, scope, name, paused, per_second, who, changed_at, (
  select count(*) from ${n.state} s where s.status = ${status.parked} and s.parked_by = ${c}.id
) as parked`;

export const readControls = (n: QueueNames): OperatorReadStatements["controls"] =>
  steps("controls", `select ${control(n, "c")} from ${controlsTable(n)} c order by id`);

export const controlStatements = (n: QueueNames): Pick<OperatorStatements, "putControl" | "endControl"> => ({
  putControl: steps(
    "put control",
    `insert into ${controlsTable(n)} (scope, name, paused, per_second, refilled_at, who, changed_at)
values (:scope, :name, coalesce(:paused, 0), :per_second, ${now}, :who, ${now})
on conflict (scope, name) do update
set paused = coalesce(:paused, paused),
  per_second = coalesce(excluded.per_second, per_second),
  who = excluded.who,
  changed_at = excluded.changed_at
returning ${control(n, controlsTable(n))}`,
  ),
  endControl: steps(
    "end control",
    `update ${controlsTable(n)}
set paused = paused and not :paused,
  per_second = case when :paused then per_second end,
  who = :who,
  changed_at = ${now}
where scope = :scope and name = :name and case when :paused then paused else per_second is not null end
returning ${control(n, controlsTable(n))}`,
  ),
});
