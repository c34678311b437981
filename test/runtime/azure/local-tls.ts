import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const path = (name: string) => fileURLToPath(new URL(`../../support/tls/${name}`, import.meta.url));

/** A certificate for 127.0.0.1, because Microsoft's clients send tokens by HTTPS only. */
export const localTls = {
  certFile: path("server.crt"),
  keyFile: path("server.key"),
  read: () => ({ cert: readFileSync(path("server.crt")), key: readFileSync(path("server.key")) }),
  /** The environment of a process that trusts it. */
  env: { NODE_EXTRA_CA_CERTS: path("server.crt") },
} as const;
