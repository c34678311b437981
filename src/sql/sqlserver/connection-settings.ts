import { defined } from "../../base/defined.js";
import { InvalidArgumentError } from "../../errors.js";
import type { MssqlConfig } from "./client.js";

const booleans = ["encrypt", "trustServerCertificate", "multiSubnetFailover"] as const;
const texts = ["appName", "instanceName"] as const;
const known: readonly string[] = [...booleans, ...texts];

/**
 * `mssql://user:password@host:1433/database?encrypt=true&trustServerCertificate=false`. Parsed here, because mssql itself
 * does not parse URLs. No error quotes the URL, because it may contain a password.
 */
export function parseMssqlUrl(text: string): Partial<MssqlConfig> & { server: string } {
  const url = toUrl(text);
  const server = url.hostname.replace(/^\[(.*)\]$/, "$1");
  if (server === "")
    throw new InvalidArgumentError(
      "The SQL Server URL names no host. Write mssql://user:password@host:1433/database.",
    );
  const database = decode(url.pathname.slice(1), "database");
  return {
    server,
    ...defined({
      port: url.port === "" ? undefined : Number(url.port),
      database: database === "" ? undefined : database,
      user: url.username === "" ? undefined : decode(url.username, "user"),
      password: url.password === "" ? undefined : decode(url.password, "password"),
    }),
    options: optionsOf(url.searchParams),
  };
}

function toUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== "mssql:") {
    throw new InvalidArgumentError(
      "The SQL Server URL must look like mssql://user:password@host:1433/database, with special characters in user and password percent-encoded.",
    );
  }
  return url;
}

function decode(part: string, what: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new InvalidArgumentError(
      `The ${what} in the SQL Server URL is not percent-encoded correctly: write % as %25.`,
    );
  }
}

function optionsOf(query: URLSearchParams): NonNullable<MssqlConfig["options"]> {
  const unknown = [...query.keys()].filter((name) => !known.includes(name));
  if (unknown.length > 0) {
    throw new InvalidArgumentError(
      `The SQL Server URL has the unknown option ${unknown.join(", ")}. Known options: ${known.join(", ")}. Pass others in config.`,
    );
  }
  const options: Record<string, string | boolean> = {};
  for (const name of texts) if (query.has(name)) options[name] = query.get(name)!;
  for (const name of booleans) if (query.has(name)) options[name] = toBoolean(name, query.get(name)!);
  return options;
}

function toBoolean(name: string, value: string): boolean | string {
  if (name === "encrypt" && value === "strict") return value; // TDS 8
  if (value !== "true" && value !== "false") {
    throw new InvalidArgumentError(
      `The option ${name} in the SQL Server URL must be true or false${name === "encrypt" ? ", or strict" : ""}.`,
    );
  }
  return value === "true";
}

/** A keyword and a value. A quoted value may contain anything, also `;` and `=`. */
const pairs = /([^=;]+)=\s*("(?:[^"]|"")*"|'(?:[^']|'')*'|[^;]*)/g;
const serverWords = ["data source", "server", "address", "addr", "network address"];
const databaseWords = ["initial catalog", "database"];

/** Server and database of a connection string, for logs, and nothing else of it. */
export function describeConnectionString(text: string): string {
  const found = new Map<string, string>();
  for (const [, word, value] of text.matchAll(pairs))
    found.set(word!.trim().toLowerCase(), unquote(value!.trim()));
  const first = (words: readonly string[]) =>
    words.map((word) => found.get(word)).find((value) => value !== undefined);
  return describe(first(serverWords), first(databaseWords));
}

const unquote = (value: string) => value.replace(/^(["'])(.*)\1$/s, "$2");

export const describe = (server: string | undefined, database: string | undefined): string =>
  `${server ?? "unknown"}/${database ?? ""}`;
