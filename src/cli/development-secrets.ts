import { randomBytes } from "node:crypto";
import { lstat, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { isIPv4 } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import type { AppDefinition } from "../app/app-definition.js";
import type { Environment } from "../config/environment.js";

/** Has the form of a secret of Stripe and of Standard Webhooks. */
export const newDevelopmentSecret = (): string => `whsec_${randomBytes(24).toString("base64")}`;

/** Only a run that no other machine can reach gets development secrets. */
export const isThisMachine = (host: string): boolean =>
  host === "localhost" || host === "::1" || host === "[::1]" || (isIPv4(host) && host.startsWith("127."));

/** Returns the secret for each variable that a source or the service refers to and that is not set. */
export function developmentSecrets(
  { sources = {}, service }: AppDefinition,
  environment: Environment,
  secret: string,
): Readonly<Record<string, string>> {
  const all = Object.values({ ...sources, ...environment.sources } as NonNullable<AppDefinition["sources"]>);
  const references = [...all.flatMap(({ secrets }) => [secrets].flat()), ...[service?.tokens ?? []].flat()];
  const names = references.flatMap((entry) =>
    typeof entry === "object" && entry?.from === "env" && !environment.env[entry.name] ? [entry.name] : [],
  );
  return Object.fromEntries(names.map((name) => [name, secret]));
}

const folder = (): string => join(tmpdir(), `oncebox-${userInfo().uid}`);
const fileOf = (port: number): string => join(folder(), `dev-${port}`);

/** Writes the secret of the run at this port where `oncebox sign` finds it, and only this user. Returns what removes it. */
export async function shareDevelopmentSecret(port: number, secret: string): Promise<() => Promise<void>> {
  await mkdir(folder(), { recursive: true, mode: 0o700 });
  if (!(await isOwnFolder())) return async () => {}; // somebody else has made it, and could read the file
  const file = fileOf(port);
  await rm(file, { force: true });
  await writeFile(file, secret, { mode: 0o600, flag: "wx" });
  return () => rm(file, { force: true });
}

/** The secret of the local run at this port. Undefined where none runs. */
export async function sharedDevelopmentSecret(port: number): Promise<string | undefined> {
  if (!(await isOwnFolder())) return undefined;
  return readFile(fileOf(port), "utf8").catch(() => undefined);
}

async function isOwnFolder(): Promise<boolean> {
  const found = await lstat(folder()).catch(() => undefined);
  if (found === undefined || !found.isDirectory()) return false;
  // Windows has neither user ids nor modes; its folder of temporary files is the user's own.
  return process.platform === "win32" || (found.uid === userInfo().uid && (found.mode & 0o077) === 0);
}
