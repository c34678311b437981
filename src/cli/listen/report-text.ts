import type { ReceivedWebhook } from "../../webhooks/route-options.js";
import type { Report } from "./receive-and-report.js";

/** A longer text is cut: it is for people to read. */
const mostShown = 2_000;
const mostEvents = 20;

/** The report of one request as lines for people. */
export function reportText(report: Report, at: Date): string {
  const { method, path, status, fields, refusal, reason, advice, signed } = report;
  const why = refusal ?? fields.reason;
  return [
    `${at.toISOString().slice(11, 19)} ${method} ${path}  ${status} ${fields.outcome ?? ""}${why ? `: ${why}` : ""}`,
    ...(fields.messageId === undefined ? batchLines(report) : [named(fields)]),
    ...(reason === undefined ? [] : [`  why: ${reason}.`]),
    ...(advice === undefined ? [] : [`  do: ${advice}`]),
    ...signed.map((text) => `  signed text: ${shown(text)}`),
  ].join("\n");
}

/** Of a batch: how many events had which outcome, and the new ones. */
function batchLines({ fields, events }: Report): readonly string[] {
  const counts = Object.entries(fields).filter(([, count]) => typeof count === "number");
  const outcomes = counts.filter(([name]) => name !== "status").map(([name, count]) => `${count} ${name}`);
  if (outcomes.length === 0) return [];
  const more = events.length - mostEvents;
  return [
    `  events: ${outcomes.join(", ")}`,
    ...events.slice(0, mostEvents).map(named),
    ...(more > 0 ? [`  and ${more} more`] : []),
  ];
}

const named = ({ messageId, topic, tenant }: Partial<Record<keyof ReceivedWebhook, unknown>>): string =>
  `  ${[`id ${messageId}`, topic && `topic ${topic}`, tenant && `tenant ${tenant}`].filter(Boolean).join(", ")}`;

/** As a JSON string, so that a line break or a space at its end can be seen. */
function shown(text: string): string {
  const cut = text.length > mostShown ? `${text.slice(0, mostShown)}…` : text;
  return JSON.stringify(cut) + (cut === text ? "" : ` (${text.length} characters)`);
}
