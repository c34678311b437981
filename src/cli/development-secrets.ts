import { lstat, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { isIPv4 } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import type { AppDefinition } from "../app/app-definition.js";
import { isReference } from "../app/app-sources.js";
import type { Environment } from "../config/environment.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import { type DevelopmentKeys, developmentSecretOf } from "./development-keys.js";

/** Only a run that no other machine can reach gets development secrets. */
export const isThisMachine = (host: string): boolean =>
  host === "localhost" || host === "::1" || host === "[::1]" || (isIPv4(host) && host.startsWith("127."));

/** A source with its scheme loaded. */
export interface SchemedSource {
  readonly scheme: WebhookScheme;
  readonly secrets: unknown;
  readonly verifyToken?: unknown;
}

/** The variables that a secret refers to and that are not set. */
export const unsetVariables = (secrets: unknown, env: NodeJS.ProcessEnv): readonly string[] =>
  [secrets]
    .flat()
    .flatMap((one) => (isReference(one) && one.from === "env" && !env[one.name] ? [one.name] : []));

/** Returns the secret for each variable that a source or the service refers to and that is not set. */
export function developmentSecrets(
  { service }: AppDefinition,
  { env }: Environment,
  sources: readonly SchemedSource[],
  keys: DevelopmentKeys,
): Readonly<Record<string, string>> {
  const ofSources = sources.flatMap(({ scheme, secrets }) =>
    unsetVariables(secrets, env).map((name) => [name, developmentSecretOf(scheme, keys)] as const),
  );
  const ofHandshakes = sources.flatMap(({ verifyToken }) =>
    unsetVariables(verifyToken, env).map((name) => [name, keys.secret] as const),
  );
  const ofService = unsetVariables(service?.tokens, env).map((name) => [name, keys.secret] as const);
  return Object.fromEntries([...ofHandshakes, ...ofSources, ...ofService]);
}

const folder = (): string => join(tmpdir(), `oncebox-${userInfo().uid}`);
const fileOf = (port: number): string => join(folder(), `dev-${port}`);

/** Writes the keys of the run at this port where `oncebox sign` finds them, and only this user. Returns what removes them. */
export async function shareDevelopmentKeys(
  port: number,
  keys: DevelopmentKeys,
): Promise<() => Promise<void>> {
  await mkdir(folder(), { recursive: true, mode: 0o700 });
  if (!(await isOwnFolder())) return async () => {}; // somebody else has made it, and could read the file
  const file = fileOf(port);
  await rm(file, { force: true });
  await writeFile(file, JSON.stringify(keys), { mode: 0o600, flag: "wx" });
  return () => rm(file, { force: true });
}

/** The keys of the local run at this port. Undefined where none runs. */
export async function sharedDevelopmentKeys(port: number): Promise<DevelopmentKeys | undefined> {
  if (!(await isOwnFolder())) return undefined;
  try {
    return JSON.parse(await readFile(fileOf(port), "utf8")) as DevelopmentKeys;
  } catch {
    return undefined;
  }
}

async function isOwnFolder(): Promise<boolean> {
  const found = await lstat(folder()).catch(() => undefined);
  if (found === undefined || !found.isDirectory()) return false;
  // Windows has neither user ids nor modes; its folder of temporary files is the user's own.
  return process.platform === "win32" || (found.uid === userInfo().uid && (found.mode & 0o077) === 0);
}
