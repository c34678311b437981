import { InvalidArgumentError } from "../errors.js";
import { daysToMs, deadRetentionDays, isDeadRetention } from "../queue/dead-retention.js";
import { type LogLevel, logLevels } from "../telemetry/json-logger.js";
import { isSecretReference, type SecretReference, secretReferenceForms } from "./secret-reference.js";
import { type SourcesFromJson, sourcesFromJson } from "./sources-from-json.js";

/** The settings that every platform reads from the environment. Only this folder reads `process.env`. */
export interface Environment {
  readonly databaseUrl: string | SecretReference | undefined;
  readonly sources: SourcesFromJson | undefined;
  readonly logLevel: LogLevel;
  readonly port: number;
  readonly publicUrl: string | undefined;
  /** How long dead messages are kept, when the environment says so. */
  readonly deadRetentionMs: number | undefined;
  readonly env: NodeJS.ProcessEnv;
}

/** For callers outside of this folder that pass the environment on. */
export const processEnv: NodeJS.ProcessEnv = process.env;

/** Rejects with one error that lists all problems, by the variables' names and without their values. */
export async function readEnvironment(env: NodeJS.ProcessEnv = processEnv): Promise<Environment> {
  const problems: string[] = [];
  const attempt = <T>(read: () => T, otherwise: T): T => {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof InvalidArgumentError)) throw error;
      problems.push(error.message.replace(/\.$/, ""));
      return otherwise;
    }
  };
  const settings: Environment = {
    databaseUrl: attempt(() => databaseUrl(env.ONCEBOX_DATABASE_URL), undefined),
    sources: attempt(() => webhooks(env.ONCEBOX_WEBHOOKS), undefined),
    logLevel: attempt(() => readLogLevel(env), "info"),
    port: attempt(() => port(env.PORT), 7071),
    publicUrl: filled(env.ONCEBOX_PUBLIC_URL),
    deadRetentionMs: attempt(() => deadRetentionMs(env.ONCEBOX_DEAD_RETENTION_DAYS), undefined),
    env,
  };
  if (problems.length > 0) throw new InvalidArgumentError(`${problems.join("; ")}.`);
  return settings;
}

const filled = (value: string | undefined): string | undefined =>
  value === undefined || value.trim() === "" ? undefined : value.trim();

function json(text: string, name: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new InvalidArgumentError(`${name} is not valid JSON`); // the parser's message would quote it
  }
}

/** A URL, or a reference as JSON to where the URL is kept. */
function databaseUrl(text: string | undefined): string | SecretReference | undefined {
  const value = filled(text);
  if (value === undefined || !value.startsWith("{")) return value;
  const reference = json(value, "ONCEBOX_DATABASE_URL");
  if (isSecretReference(reference)) return reference;
  throw new InvalidArgumentError(`ONCEBOX_DATABASE_URL must be a URL or ${secretReferenceForms}`);
}

function webhooks(text: string | undefined): SourcesFromJson | undefined {
  const value = filled(text);
  return value === undefined
    ? undefined
    : sourcesFromJson(json(value, "ONCEBOX_WEBHOOKS"), "ONCEBOX_WEBHOOKS");
}

export function readLogLevel(env: NodeJS.ProcessEnv = processEnv): LogLevel {
  const value = filled(env.ONCEBOX_LOG_LEVEL)?.toLowerCase() ?? "info";
  if (!(logLevels as readonly string[]).includes(value)) {
    throw new InvalidArgumentError(`ONCEBOX_LOG_LEVEL must be one of ${logLevels.join(", ")}`);
  }
  return value as LogLevel;
}

/** 0, the default of the templates, leaves it to the app. */
function deadRetentionMs(text: string | undefined): number | undefined {
  const value = filled(text) ?? "0";
  const days = /^\d{1,3}$/.test(value) ? Number(value) : Number.NaN;
  if (days === 0) return undefined;
  if (isDeadRetention(daysToMs(days))) return daysToMs(days);
  const { least, most } = deadRetentionDays;
  throw new InvalidArgumentError(
    `ONCEBOX_DEAD_RETENTION_DAYS must be a whole number of days from ${least} to ${most}, or 0 to leave it to the app`,
  );
}

function port(text: string | undefined): number {
  const value = filled(text);
  if (value === undefined) return 7071;
  if (!/^\d{1,5}$/.test(value) || Number(value) > 65_535) {
    throw new InvalidArgumentError("PORT must be a number from 0 to 65535");
  }
  return Number(value);
}
