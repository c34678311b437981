import type { Report } from "./receive-and-report.js";

/** A longer text is cut: it is for people to read. */
const mostShown = 2_000;

/** The report of one request as lines for people. */
export function reportText(report: Report, at: Date): string {
  const { method, path, status, fields, refusal, reason, advice, signed } = report;
  const { outcome, messageId, topic, tenant } = fields;
  const why = refusal ?? fields.reason;
  const what = [messageId && `id ${messageId}`, topic && `topic ${topic}`, tenant && `tenant ${tenant}`];
  const named = what.filter(Boolean).join(", ");
  return [
    `${at.toISOString().slice(11, 19)} ${method} ${path}  ${status} ${outcome ?? ""}${why ? `: ${why}` : ""}`,
    ...(named === "" ? [] : [`  ${named}`]),
    ...(reason === undefined ? [] : [`  why: ${reason}.`]),
    ...(advice === undefined ? [] : [`  do: ${advice}`]),
    ...signed.map((text) => `  signed text: ${shown(text)}`),
  ].join("\n");
}

/** As a JSON string, so that a line break or a space at its end can be seen. */
function shown(text: string): string {
  const cut = text.length > mostShown ? `${text.slice(0, mostShown)}…` : text;
  return JSON.stringify(cut) + (cut === text ? "" : ` (${text.length} characters)`);
}
