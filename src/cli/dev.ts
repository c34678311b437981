import { once } from "node:events";
import { type LocalRun, type LocalRunOptions, startLocalRun } from "../adapters/local/local-run.js";
import type { AppDefinition } from "../app/app-definition.js";
import { defined } from "../base/defined.js";
import type { Environment } from "../config/environment.js";
import {
  type Command,
  count,
  databaseHelp,
  databaseOptions,
  exitCodes,
  text,
  UsageError,
} from "./command.js";
import { withDevAdmin } from "./dev-admin.js";
import { introduce } from "./dev-introduction.js";
import { devLogger } from "./dev-logger.js";
import { sampleOf, tryOut } from "./dev-sample.js";
import { devSources } from "./dev-sources.js";
import { watchDev } from "./dev-watch.js";
import { developmentDocuments } from "./development-documents.js";
import { type DevelopmentKeys, newDevelopmentKeys } from "./development-keys.js";
import { developmentSecrets, isThisMachine, shareDevelopmentKeys } from "./development-secrets.js";
import { withFirstTopic } from "./first-topic.js";
import { definitionFor, devDatabase } from "./load-app.js";
import { secretStores } from "./secret-stores.js";

export const devCommand: Command = {
  name: "dev",
  summary:
    "run the functions on this machine: webhooks, the service and the admin page by HTTP, the other jobs by timers",
  usage: "dev [--app FILE] [--port N] [--try] [--watch] [--backup DIR] [options]",
  options: {
    ...databaseOptions,
    port: { type: "string" },
    host: { type: "string" },
    try: { type: "boolean" },
    watch: { type: "boolean" },
    backup: { type: "string" },
  },
  help: {
    port: "the port, instead of PORT; 7071 by default, 0 for any free port",
    host: "the address to listen at; 127.0.0.1 by default, which only this machine can reach",
    try: "send an example webhook twice",
    watch: "start again when a source file of the app's project changes",
    backup: "back up the SQLite databases to this folder every hour, and keep the back-ups for 7 days",
    ...databaseHelp,
    json: "print only log lines, as JSON; on a terminal they are made readable otherwise",
  },
  examples: [
    "oncebox dev --app app.js",
    "PORT=8080 ONCEBOX_DATABASE_URL=postgres://app@localhost/orders oncebox dev --app app.js",
  ],
  async run(input) {
    const { values, terminal } = input;
    if (values.watch) return watchDev(input);
    const loaded = await definitionFor(input);
    const host = text(values, "host") ?? "127.0.0.1";
    const admin = withDevAdmin(loaded.definition, loaded.environment, host);
    const { definition, firstTopic } = withFirstTopic({
      database: devDatabase,
      ...admin.definition,
    });
    const port = count(values, "port") ?? loaded.environment.port;
    if (port > 65_535) throw new UsageError("--port must be a number from 0 to 65535.");
    const backupTo = text(values, "backup");
    const sources = await devSources(definition, loaded.environment);
    const keys = await newDevelopmentKeys(sources.flatMap((one) => (one.isDevelopment ? one.scheme : [])));
    const isLocal = isThisMachine(host);
    const secrets = isLocal ? developmentSecrets(definition, loaded.environment, sources, keys) : {};
    const environment: Environment = {
      ...loaded.environment,
      port,
      env: { ...loaded.environment.env, ...secrets, ...admin.env },
    };
    const local = await started(isLocal ? withDocuments(definition, keys) : definition, {
      environment,
      host,
      logger: devLogger(input, environment.logLevel),
      resolveSecret: secretStores(environment.env),
      ...defined({ backup: backupTo === undefined ? undefined : { to: backupTo } }),
    });
    const unshare = await shareDevelopmentKeys(Number(new URL(local.url).port || 80), keys);
    try {
      const sample = values.try ? sampleOf(sources, keys) : undefined;
      if (!values.json) {
        introduce(input, {
          local,
          definition,
          environment: loaded.environment,
          sources,
          keys,
          topic: firstTopic(),
          adminToken: admin.token,
          sample,
        });
      }
      if (sample !== undefined) await tryOut(terminal, local.url, sample, firstTopic());
      if (!terminal.signal.aborted) await once(terminal.signal, "abort");
      if (!values.json)
        terminal.out("Stopping. Running handlers are finished first. Ctrl-C again ends it at once.");
    } finally {
      await unshare();
      await local.stop();
    }
    return exitCodes.ok;
  },
};

/** Providers that publish their key cannot be asked for that of this run. */
const withDocuments = (definition: AppDefinition, keys: DevelopmentKeys): AppDefinition => ({
  ...definition,
  webhooks: { ...definition.webhooks, fetchText: developmentDocuments(keys) },
});

async function started(definition: AppDefinition, options: LocalRunOptions): Promise<LocalRun> {
  try {
    return await startLocalRun(definition, options);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    throw new Error(
      `The port ${options.environment.port} is in use (EADDRINUSE). Choose another one with --port or PORT.`,
    );
  }
}
