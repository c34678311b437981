import * as z from "zod/mini";
import { InvalidArgumentError } from "../errors.js";
import { type LogLevel, logLevels } from "../telemetry/json-logger.js";
import { checked } from "./problems.js";
import { type SecretReference, secretReference } from "./secret-reference.js";

/** What sources may say in JSON; their schemes' own fields are checked where sources are resolved. */
const sources = () => {
  const secret = z.union([z.string().check(z.minLength(1)), secretReference()]);
  const secrets = z.union(
    [secret, z.array(secret).check(z.minLength(1))],
    'must be a secret, a reference to one like {"from": "env", "name": …}, or a list of them',
  );
  const scheme = z.union([z.string(), z.looseObject({})], "must be the name of a scheme, or a scheme itself");
  return z.catchall(z.object({}), z.looseObject({ scheme, secrets, verifyToken: z.optional(secrets) }));
};
export type SourcesFromJson = z.infer<ReturnType<typeof sources>>;

/** All that is read from the environment. Only this folder looks at `process.env`. */
export interface Environment {
  readonly databaseUrl: string | SecretReference | undefined;
  readonly sources: SourcesFromJson | undefined;
  readonly logLevel: LogLevel;
  readonly port: number;
  readonly publicUrl: string | undefined;
  readonly env: NodeJS.ProcessEnv;
}

/** For those who pass it on. */
export const processEnv: NodeJS.ProcessEnv = process.env;

/** Says everything that is wrong in one error, by the variables' names and without their values. */
export function readEnvironment(env: NodeJS.ProcessEnv = processEnv): Environment {
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
    logLevel: attempt(() => logLevel(env.ONCEBOX_LOG_LEVEL), "info"),
    port: attempt(() => port(env.PORT), 7071),
    publicUrl: filled(env.ONCEBOX_PUBLIC_URL),
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
    throw new InvalidArgumentError(`${name} is not valid JSON`); // without the parser's words: they quote it
  }
}

/** A URL, or a reference as JSON to where it is kept. */
function databaseUrl(text: string | undefined): string | SecretReference | undefined {
  const value = filled(text);
  if (value === undefined || !value.startsWith("{")) return value;
  return checked(secretReference(), json(value, "ONCEBOX_DATABASE_URL"), "ONCEBOX_DATABASE_URL");
}

function webhooks(text: string | undefined): SourcesFromJson | undefined {
  const value = filled(text);
  if (value === undefined) return undefined;
  return checked(sources(), json(value, "ONCEBOX_WEBHOOKS"), "ONCEBOX_WEBHOOKS");
}

function logLevel(text: string | undefined): LogLevel {
  const value = filled(text)?.toLowerCase() ?? "info";
  if (!(logLevels as readonly string[]).includes(value)) {
    throw new InvalidArgumentError(`ONCEBOX_LOG_LEVEL must be one of ${logLevels.join(", ")}`);
  }
  return value as LogLevel;
}

function port(text: string | undefined): number {
  const value = filled(text);
  if (value === undefined) return 7071;
  if (!/^\d{1,5}$/.test(value) || Number(value) > 65_535) {
    throw new InvalidArgumentError("PORT must be a number from 0 to 65535");
  }
  return Number(value);
}
