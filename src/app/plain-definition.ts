import type { AppDefinition } from "./app-definition.js";

type Check = (value: unknown) => boolean;

const isText: Check = (value) => typeof value === "string" && value !== "";
const isFunction: Check = (value) => typeof value === "function";

/** As it is written between braces: neither a list nor of a class. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

export const isRecordOfRecords: Check = (value) => isRecord(value) && Object.values(value).every(isRecord);

const has =
  (name: string): Check =>
  (value) =>
    isFunction((value as Readonly<Record<string, unknown>> | null)?.[name]);
const isFunctionOrRecord: Check = (value) => isFunction(value) || isRecord(value);

const usual: Readonly<Record<keyof AppDefinition, Check>> = {
  database: (value) => isText(value) || isFunction(value),
  tenants: has("open"),
  sources: isRecordOfRecords,
  handlers: isFunctionOrRecord,
  publishers: isFunctionOrRecord,
  consumer: (value) =>
    isRecord(value) &&
    Object.keys(value).length === 2 &&
    isText(value.subscriber) &&
    isFunction(value.handle),
  inbox: isRecord,
  outbox: isRecord,
  schema: isText,
  dispatch: isRecord,
  webhooks: isRecord,
  retentionMs: (value) => typeof value === "number" && value > 0 && value < Infinity,
  logger: has("info"),
  metrics: (value) => typeof value === "object" && value !== null,
};

/**
 * Whether zod would find nothing wrong with a definition, told without zod: to make and run its schema takes a tenth
 * of a cold start. No answer but "certainly": what is unusual in any way is left to zod, which finds the words too.
 */
export const isPlainlyRight = (app: unknown): boolean =>
  isRecord(app) &&
  Object.entries(app).every(
    ([name, value]) => Object.hasOwn(usual, name) && usual[name as keyof AppDefinition](value),
  );
