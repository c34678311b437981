import type { ClientConfig } from "pg";
import { memoisePromise } from "../../base/async.js";
import { loadPackage, requirePackage, rethrow } from "../../base/require-package.js";
import { InvalidArgumentError, InvalidOperationError } from "../../errors.js";

/** What a token must be for, so that Azure Database for PostgreSQL takes it as a password. */
const scope = "https://ossrdbms-aad.database.windows.net/.default";
/** Less than a connection may take. */
const longestTokenMs = 10_000;

/** Microsoft Entra gave no token, so nothing was sent to the database. */
export class EntraTokenError extends InvalidOperationError {
  static override readonly code = "ONCEBOX_ENTRA_TOKEN";
  override readonly code = EntraTokenError.code;
  override readonly name = "EntraTokenError";
}

/**
 * The driver's settings for a URL. With `?authentication=entra` the password is a token of the managed identity, or of the
 * developer's login, which every new connection asks for. The package keeps tokens and renews them in time.
 */
export function connectionSettings(url: string | undefined): ClientConfig {
  if (url === undefined) return {};
  if (!isEntra(url)) return { connectionString: url };
  const { hostname, port, username, password, pathname, searchParams } = new URL(url);
  if (hostname === "" || username === "" || pathname.length < 2)
    throw refused("needs a user, a host and a database");
  if (password !== "") throw refused("must have no password: a token is used instead");
  const { authentication, sslmode = "verify-full", ...others } = Object.fromEntries(searchParams);
  if (authentication !== "entra") throw refused('has the setting "authentication" more than once');
  // The driver would take them from here instead.
  const taken = Object.keys(others).find((name) => /^(host|port|user|password|database|ssl)/i.test(name));
  if (taken !== undefined) throw refused(`cannot have the setting "${taken}"`);
  requirePackage("@azure/identity", entraUser);
  return {
    ...others,
    host: hostname.replace(/^\[|\]$/g, ""),
    port: Number(port || "5432"),
    user: decodeURIComponent(username),
    database: decodeURIComponent(pathname.slice(1)),
    ssl: mustEncrypt(sslmode, hostname),
    password: entraToken,
  };
}

const entraUser = "PostgreSQL with authentication=entra";

const isEntra = (url: string): boolean =>
  URL.canParse(url) && new URL(url).searchParams.getAll("authentication").includes("entra");

/** Whoever reads a token can sign in with it. So the server is always verified, but on this machine. */
function mustEncrypt(sslmode: string, hostname: string): boolean {
  if (["require", "verify-ca", "verify-full"].includes(sslmode)) return true;
  if (sslmode === "disable" && /^(127\.[\d.]+|localhost|\[::1\])$/.test(hostname)) return false;
  throw refused("must have sslmode=verify-full: a token is never sent without TLS");
}

const refused = (why: string): InvalidArgumentError =>
  new InvalidArgumentError(`A PostgreSQL URL with authentication=entra ${why}.`);

/** One for the process: it has the tokens. AZURE_CLIENT_ID names the identity, where an app has several. */
const credential = memoisePromise(async () => {
  const { DefaultAzureCredential } = await loadPackage(
    "@azure/identity",
    () => import("@azure/identity").catch(rethrow),
    entraUser,
  );
  return new DefaultAzureCredential();
});

async function entraToken(): Promise<string> {
  const identity = await credential();
  try {
    const { token } = await identity.getToken(scope, { abortSignal: AbortSignal.timeout(longestTokenMs) });
    return token;
  } catch (error) {
    // The package's text lists every way that it tried, and quotes what it was answered.
    throw new EntraTokenError(
      "Microsoft Entra gave no token for PostgreSQL. Has the app a managed identity, and is AZURE_CLIENT_ID its client id? On another machine, run az login.",
      { cause: error },
    );
  }
}
