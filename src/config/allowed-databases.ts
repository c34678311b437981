import { resolve, sep } from "node:path";
import { InvalidArgumentError } from "../errors.js";
import { databaseKindOf, sqliteFile } from "./database-url.js";

/** Which databases a tenant's record may name. */
export interface AllowedDatabases {
  readonly kinds: readonly AllowedKind[];
  /** Hosts of PostgreSQL and SQL Server: `"db.example.com"`, `"*.eu.db.example.com"`, `"db.example.com:5433"`. Without a port, any port. */
  readonly hosts?: readonly string[];
  /** Folders that files of SQLite may be in. */
  readonly folders?: readonly string[];
  /** Settings of a URL or connection string that are refused otherwise, such as `"encrypt"` for `encrypt=false`. */
  readonly settings?: readonly string[];
}

/** A kind of database that tenants may be on. */
export type AllowedKind = "postgres" | "sqlserver" | "sqlite";

const known: readonly AllowedKind[] = ["postgres", "sqlserver", "sqlite"];
const hostPattern = /^(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?$|^\[[0-9a-f:.]+\](:\d{1,5})?$/i;

/** Returns what is wrong with `allow` itself. */
export function allowProblems(allow: AllowedDatabases): readonly string[] {
  if (typeof allow !== "object" || allow === null) return [`allow must look like ${allowExample}`];
  const { kinds: givenKinds, hosts = [], folders = [], settings = [], ...unknown } = allow;
  const kinds: readonly unknown[] = Array.isArray(givenKinds) ? givenKinds : [];
  const problems = Object.keys(unknown).map((name) => `allow.${name} is not known`);
  if (kinds.length === 0 || !kinds.every((kind) => known.includes(kind as AllowedKind)))
    problems.push(`allow.kinds must be a list of ${known.join(", ")}`);
  if ((kinds.includes("postgres") || kinds.includes("sqlserver")) && hosts.length === 0)
    problems.push("allow.hosts must name the hosts of the tenants' databases");
  if (kinds.includes("sqlite") && folders.length === 0)
    problems.push("allow.folders must name the folders of SQLite files");
  if (![...hosts].every((host) => typeof host === "string" && hostPattern.test(host)))
    problems.push('allow.hosts: write "host", "host:port" or "*.domain"');
  if (![...folders, ...settings].every((one) => typeof one === "string" && one !== ""))
    problems.push("allow.folders and allow.settings must be lists of texts");
  return problems;
}

export const allowExample = '{ kinds: ["postgres"], hosts: ["db.example.com"] }';

/**
 * Refuses a URL that is not allowed. Whoever writes a tenant's record chooses where the functions connect: a foreign host
 * would get their password, or a token of their identity. So only what is certain to be read by the driver as it is read
 * here is let pass. The error never quotes the URL.
 */
export function requireAllowed(url: string, allow: AllowedDatabases): void {
  const found = databaseKindOf(url);
  const kind: AllowedKind = found === "mssql" || found === "ado" ? "sqlserver" : found;
  if (!allow.kinds.includes(kind)) throw refused(`is of the kind ${kind}, which allow.kinds does not name`);
  if (found === "sqlite") {
    requireFolder(sqliteFile(url), allow.folders ?? []);
    return;
  }
  const { host, port, settings } = found === "ado" ? readAdo(url) : readUrl(url);
  if (!(allow.hosts ?? []).some((one) => isHost(one, host, port)))
    throw refused("has a host that allow.hosts does not name");
  for (const [name, value] of settings) {
    if (isHarmless(name, value) || (allow.settings ?? []).some((one) => wordOf(one) === name)) continue;
    throw refused(`has the setting "${name}" with a value that is allowed only if allow.settings names it`);
  }
}

interface Target {
  readonly host: string;
  readonly port: string;
  /** Names in lower case, without spaces. */
  readonly settings: readonly (readonly [name: string, value: string])[];
}

/** Neither a list of hosts, nor a path, nor anything that is decoded later. */
export const plainHost = /^(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])$/i;

function readUrl(text: string): Target {
  // Drivers drop or encode such characters, each in its own way.
  if (/[\s\\\p{Cc}]/u.test(text) || !URL.canParse(text)) throw refused("cannot be parsed");
  const { hostname, port, protocol, searchParams } = new URL(text);
  if (!plainHost.test(hostname)) throw refused("has no plain host");
  const usual = protocol.startsWith("postgres") ? "5432" : "1433";
  const settings = [...searchParams].map(([name, value]) => [wordOf(name), value] as const);
  requireOnce(settings.map(([name]) => name));
  return { host: hostname, port: port || usual, settings };
}

const synonyms: Readonly<Record<string, string>> = {
  datasource: "server",
  addr: "server",
  address: "server",
  networkaddress: "server",
  initialcatalog: "database",
  uid: "userid",
  user: "userid",
  pwd: "password",
};

/** `Name=value;` and `Name="value";`. What quotes or braces could make ambiguous is refused. */
const adoSetting = /\s*([a-z][a-z ]*?)\s*=\s*("[^"]*"|'[^']*'|[^;"'{}=][^;"'{}]*)\s*(?:;|$)/iy;

function readAdo(text: string): Target {
  const settings: [string, string][] = [];
  adoSetting.lastIndex = 0;
  while (adoSetting.lastIndex < text.length) {
    const found = adoSetting.exec(text);
    if (found === null) throw refused('cannot be parsed: write Name=value; or Name="value";');
    const word = wordOf(found[1]!);
    settings.push([synonyms[word] ?? word, found[2]!.trim()]);
  }
  requireOnce(settings.map(([name]) => name));
  const server = settings.find(([name]) => name === "server")?.[1] ?? "";
  const [, host = "", port = "1433"] =
    /^(?:tcp:)?([a-z0-9.-]+)(?:\\[\w$]+)?(?:,\s*(\d{1,5}))?$/i.exec(server) ?? [];
  if (host === "") throw refused("has no plain host");
  return { host, port, settings: settings.filter(([name]) => name !== "server") };
}

/** The driver would take the first or the last, or both. */
function requireOnce(names: readonly string[]): void {
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw refused(`has the setting "${twice}" more than once`);
}

const wordOf = (name: string): string => name.replace(/[\s_]/g, "").toLowerCase();

/** With any value: they change neither where the connection goes nor who can read it. */
const harmless = `database userid password authentication clientid clientsecret tenantid token
  appname applicationname app instancename multisubnetfailover connecttimeout connectiontimeout
  timeout statementtimeout querytimeout clientencoding persistsecurityinfo minpoolsize
  maxpoolsize pooling prepare packetsize workstationid applicationintent multipleactiveresultsets`.split(
  /\s+/,
);

function isHarmless(name: string, value: string): boolean {
  const word = value
    .replace(/^["']|["']$/g, "")
    .trim()
    .toLowerCase();
  if (name === "encrypt") return ["true", "yes", "strict", "mandatory"].includes(word);
  if (name === "trustservercertificate") return ["false", "no"].includes(word);
  if (name === "sslmode") return ["require", "verify-ca", "verify-full"].includes(word);
  if (name === "ssl") return ["true", "1"].includes(word);
  return harmless.includes(name);
}

function isHost(allowed: string, host: string, port: string): boolean {
  const [, pattern = "", wantedPort] = /^(.*?)(?::(\d+))?$/.exec(allowed.toLowerCase()) ?? [];
  if (wantedPort !== undefined && wantedPort !== port) return false;
  const name = host.toLowerCase();
  return pattern.startsWith("*.") ? name.endsWith(pattern.slice(1)) : name === pattern;
}

function requireFolder(file: string, folders: readonly string[]): void {
  const path = resolve(file);
  const isInside = folders.some((folder) => path.startsWith(`${resolve(folder)}${sep}`));
  // SQLite reads "file:…" as a URI, whatever folder it seems to be in.
  if (!isInside || /^file:/i.test(file) || file.includes("\0"))
    throw refused("names a file outside of allow.folders");
}

const refused = (why: string): InvalidArgumentError => new InvalidArgumentError(`The database URL ${why}.`);
