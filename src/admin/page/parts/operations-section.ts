import { type Child, element } from "../dom.js";
import { number } from "../format.js";
import { isBulk, isRunning, runOperation } from "../running-operations.js";
import type { ViewContext } from "../view.js";
import type { Operation } from "../wire.js";
import { button } from "./button.js";
import { conditionTexts } from "./conditions.js";
import { table } from "./table.js";
import { when } from "./time.js";

const names: Readonly<Record<Operation["action"], string>> = {
  replay: "Replay",
  discard: "Discard",
  archive: "Archive",
  edit: "Edit and replay",
  pause: "Pause",
  resume: "End of pause",
  limit: "Limit",
};

export const operationName = ({ action, filter }: Operation): string =>
  action === "limit" && filter.perSecond === null ? "End of limit" : names[action];

/** What operators have done, and who resumed it. Open when something is unfinished. */
export function operationsSection(
  context: ViewContext,
  operations: readonly Operation[],
): HTMLElement | null {
  if (operations.length === 0) return null;
  const unfinished = operations.filter(({ endedAt }) => endedAt === null).length;
  return element(
    "details",
    { class: "card", id: "operations", open: unfinished > 0 },
    element(
      "summary",
      {},
      element(
        "h2",
        { class: "summary-title" },
        unfinished === 0 ? "Operations" : `Operations: ${number(unfinished)} unfinished`,
      ),
    ),
    table(
      "Operations",
      [
        { name: "What", cell: operationName },
        { name: "By", cell: ({ by }) => by },
        { name: "Began", cell: ({ at }) => when(at) },
        { name: "Resumed", cell: resumed },
        { name: "Which", class: "wide", cell: ({ filter }) => conditionTexts(filter).join(", ") || "all" },
        {
          name: "Done",
          class: "number",
          cell: ({ done, matched }) => (matched === 0 ? "–" : `${number(done)} of ${number(matched)}`),
        },
        { name: "Ended", cell: (operation) => ending(context, operation) },
      ],
      operations,
      "",
    ),
  );
}

const resumed = ({ resumedBy, resumedAt }: Operation): Child =>
  resumedBy === null ? "–" : [`by ${resumedBy} `, when(resumedAt)];

function ending(context: ViewContext, operation: Operation): Node | string {
  const { id, endedAt } = operation;
  if (endedAt !== null) return when(endedAt);
  if (isRunning(id) || !isBulk(operation)) return "running";
  const resume = async () => {
    await runOperation(context.route.queue, operation, { resume: true });
    if (!context.signal.aborted) context.reload();
  };
  return button("Resume", resume, {
    kind: "primary",
    "aria-label": `Resume the ${operation.action} of ${operation.by}`,
  });
}
