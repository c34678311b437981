import { randomBytes } from "node:crypto";
import type { AppDefinition } from "../app/app-definition.js";
import { isReference } from "../app/app-sources.js";
import type { Environment } from "../config/environment.js";
import { isThisMachine } from "./development-secrets.js";

export interface DevAdmin {
  readonly definition: AppDefinition;
  /** Variables to set beside those of the environment. */
  readonly env: Readonly<Record<string, string>>;
  /** The token of this run; undefined where the user has given tokens. */
  readonly token: string | undefined;
}

/**
 * Gives a run that no other machine can reach the diagnostics API, also where the app defines none. Its token is made anew
 * for each run. A token that everybody knows would let a web page in that resolves its own name to this machine.
 */
export function withDevAdmin(definition: AppDefinition, { env }: Environment, host: string): DevAdmin {
  if (!isThisMachine(host)) return { definition, env: {}, token: undefined };
  const { admin = { tokens: { from: "env", name: "ONCEBOX_ADMIN_TOKENS" } } } = definition;
  const unset = [admin.tokens]
    .flat()
    .flatMap((token) => (isReference(token) && token.from === "env" && !env[token.name] ? [token.name] : []));
  const made = `developer:${randomBytes(18).toString("base64url")}`;
  return {
    definition: { ...definition, admin },
    env: Object.fromEntries(unset.map((name) => [name, made])),
    token: unset.length > 0 ? made : undefined,
  };
}
