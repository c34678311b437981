import { type LogLevel, logLevels } from "../base/logger.js";
import { InvalidArgumentError } from "../errors.js";
import { daysToMs, deadRetentionDays, isDeadRetention } from "../queue/retention.js";
import {
  isSecretReference,
  referenceIn,
  type SecretReference,
  secretReferenceForms,
} from "./secret-reference.js";

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
    databaseUrl: attempt(() => databaseUrl(filled(env, "ONCEBOX_DATABASE_URL")), undefined),
    sources: attempt(() => readSources(env), undefined),
    logLevel: attempt(() => readLogLevel(env), "info"),
    port: attempt(() => port(filled(env, "PORT")), 7071),
    publicUrl: filled(env, "ONCEBOX_PUBLIC_URL"),
    deadRetentionMs: attempt(() => deadRetentionMs(filled(env, "ONCEBOX_DEAD_RETENTION_DAYS")), undefined),
    env,
  };
  if (problems.length > 0) throw new InvalidArgumentError(`${problems.join("; ")}.`);
  return settings;
}

/** A variable without the spaces around it. Templates set what they have no value for to an empty text. */
export const filled = (env: NodeJS.ProcessEnv, name: string): string | undefined =>
  env[name]?.trim() || undefined;

/** The error names the variable. The parser's own message would quote it. */
export function parseJson(text: string, name: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new InvalidArgumentError(`${name} is not valid JSON.`);
  }
}

/** A URL, or a reference as JSON to where the URL is kept. */
function databaseUrl(value: string | undefined): string | SecretReference | undefined {
  if (value === undefined || !value.startsWith("{")) return value;
  const reference = parseJson(value, "ONCEBOX_DATABASE_URL");
  if (isSecretReference(reference)) return reference;
  throw new InvalidArgumentError(`ONCEBOX_DATABASE_URL must be a URL or ${secretReferenceForms}`);
}

export function readLogLevel(env: NodeJS.ProcessEnv = processEnv): LogLevel {
  const value = filled(env, "ONCEBOX_LOG_LEVEL")?.toLowerCase() ?? "info";
  if (!(logLevels as readonly string[]).includes(value)) {
    throw new InvalidArgumentError(`ONCEBOX_LOG_LEVEL must be one of ${logLevels.join(", ")}`);
  }
  return value as LogLevel;
}

/** 0, the default of the templates, leaves it to the app. */
function deadRetentionMs(value = "0"): number | undefined {
  const days = /^\d{1,3}$/.test(value) ? Number(value) : Number.NaN;
  if (days === 0) return undefined;
  if (isDeadRetention(daysToMs(days))) return daysToMs(days);
  const { least, most } = deadRetentionDays;
  throw new InvalidArgumentError(
    `ONCEBOX_DEAD_RETENTION_DAYS must be a whole number of days from ${least} to ${most}, or 0 to leave it to the app`,
  );
}

/** Whether a migration makes the tables of a service's messages as well: `ONCEBOX_MESSAGING`, true or false. */
export function readMessaging(env: NodeJS.ProcessEnv = processEnv): boolean {
  const value = filled(env, "ONCEBOX_MESSAGING")?.toLowerCase() ?? "false";
  if (value === "true" || value === "false") return value === "true";
  throw new InvalidArgumentError("ONCEBOX_MESSAGING must be true or false.");
}

function port(value: string | undefined): number {
  if (value === undefined) return 7071;
  if (!/^\d{1,5}$/.test(value) || Number(value) > 65_535) {
    throw new InvalidArgumentError("PORT must be a number from 0 to 65535");
  }
  return Number(value);
}

type SecretFromJson = string | SecretReference;
type SecretsFromJson = SecretFromJson | readonly SecretFromJson[];

/** Webhook sources by name. The fields of a scheme are checked where sources are resolved. */
export type SourcesFromJson = Readonly<
  Record<
    string,
    {
      readonly scheme?: string | object;
      readonly secrets: SecretsFromJson;
      readonly verifyToken?: SecretsFromJson;
    }
  >
>;

/** Throws one error with all problems. Written by hand: with zod every function would be 22 KB larger. */
function readSources(env: NodeJS.ProcessEnv): SourcesFromJson | undefined {
  const name = "ONCEBOX_WEBHOOKS";
  const text = filled(env, name);
  if (text === undefined) return undefined;
  const value = parseJson(text, name);
  const problems = isObject(value)
    ? Object.entries(value).flatMap(([source, given]) =>
        sourceProblems(given).map((problem) => `${source}${problem}`),
      )
    : ["must be an object with a source for each name"];
  if (problems.length > 0) throw new InvalidArgumentError(`${name}: ${problems.join("; ")}.`);
  return value as SourcesFromJson;
}

function sourceProblems(source: unknown): readonly string[] {
  if (!isObject(source)) return [": must be an object"];
  const { scheme, secrets, verifyToken } = source;
  const isScheme = scheme === undefined || typeof scheme === "string" || isObject(scheme);
  const areSecrets = (given: unknown): boolean =>
    Array.isArray(given) ? given.length > 0 && given.every(isSecret) : isSecret(given);
  return [
    ...(isScheme ? [] : [".scheme: must be the name of a scheme, or a scheme itself"]),
    ...(areSecrets(secrets) ? [] : [`.secrets: ${secretsForm}`]),
    ...(verifyToken === undefined || areSecrets(verifyToken) ? [] : [`.verifyToken: ${secretsForm}`]),
  ];
}

const secretsForm = 'must be a secret, a reference to one like {"from": "env", "name": …}, or a list of them';

const isSecret = (value: unknown): boolean =>
  (typeof value === "string" && value !== "") || isSecretReference(value);

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

interface GithubRecoverySettings {
  readonly hooks: readonly (
    | { readonly repository: string; readonly hookId: string }
    | { readonly organization: string; readonly hookId: string }
  )[];
  /** May manage the hooks. */
  readonly token: string | SecretReference;
  /** Of GitHub Enterprise Server. */
  readonly apiUrl?: string;
}

/**
 * The webhooks whose failed deliveries GitHub is asked for, as the templates name them: `ONCEBOX_RECOVER_GITHUB` is
 * `acme/shop:123456789`, or a list of these with commas between them; a webhook of an organization is `acme:123456789`.
 * Undefined where it is not set.
 */
export function readGithubRecovery(env: NodeJS.ProcessEnv = process.env): GithubRecoverySettings | undefined {
  const hooks = filled(env, "ONCEBOX_RECOVER_GITHUB");
  if (hooks === undefined) return undefined;
  const apiUrl = filled(env, "ONCEBOX_GITHUB_API_URL");
  return {
    hooks: hooks.split(",").map((hook) => toHook(hook.trim())),
    token: toToken(filled(env, "ONCEBOX_GITHUB_TOKEN")),
    ...(apiUrl === undefined ? {} : { apiUrl }),
  };
}

export const namesGithubHooks = (env: NodeJS.ProcessEnv): boolean =>
  filled(env, "ONCEBOX_RECOVER_GITHUB") !== undefined;

function toHook(text: string): GithubRecoverySettings["hooks"][number] {
  const [, owner, repository, hookId] = /^([\w.-]+)(\/[\w.-]+)?:(\d{1,20})$/.exec(text) ?? [];
  if (owner === undefined || hookId === undefined) {
    throw new InvalidArgumentError(
      "ONCEBOX_RECOVER_GITHUB must name webhooks as owner/repository:hookId or organization:hookId, with commas between them.",
    );
  }
  return repository === undefined
    ? { organization: owner, hookId }
    : { repository: `${owner}${repository}`, hookId };
}

/** No error quotes it. */
function toToken(text: string | undefined): string | SecretReference {
  if (text === undefined)
    throw new InvalidArgumentError("ONCEBOX_RECOVER_GITHUB is set, and ONCEBOX_GITHUB_TOKEN is not.");
  if (!text.startsWith("{")) return text;
  const reference = referenceIn(text);
  if (reference !== undefined) return reference;
  throw new InvalidArgumentError(`ONCEBOX_GITHUB_TOKEN must be a token or ${secretReferenceForms}.`);
}
