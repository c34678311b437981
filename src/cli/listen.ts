import { once } from "node:events";
import { safeReason } from "../base/safe-reason.js";
import { openDatabase } from "../config/open-database.js";
import { createInbox } from "../inbox/inbox.js";
import { migrate } from "../sql/migrate.js";
import { type Command, count, exitCodes, type Terminal, text, UsageError } from "./command.js";
import { developmentDocuments } from "./development-documents.js";
import { shareDevelopmentKeys } from "./development-secrets.js";
import { listenSources } from "./listen/listen-sources.js";
import { reportText } from "./listen/report-text.js";
import { startListening } from "./listen/start-listening.js";

const host = "127.0.0.1";

export const listenCommand: Command = {
  name: "listen",
  summary: "receive webhooks here, and show of each whether it is genuine, and why not",
  usage: "listen [SOURCE|PROVIDER …] [--app FILE] [--secret SECRET] [--port N] [options]",
  positionals: 100,
  options: {
    app: { type: "string" },
    secret: { type: "string" },
    "secret-env": { type: "string" },
    url: { type: "string" },
    port: { type: "string" },
    json: { type: "boolean" },
  },
  help: {
    app: "the app whose sources can be named, besides those of ONCEBOX_WEBHOOKS",
    secret: "the secret of the providers that are named; each run makes one of its own by default",
    "secret-env": "an environment variable with the secret, to keep it out of the shell's history",
    url: "the public address of a tunnel to this machine, for providers that sign the URL",
    port: "the port, instead of PORT; 7071 by default, 0 for any free port",
    json: "print JSON: one line for the address, and one for each request",
  },
  examples: [
    "oncebox listen",
    "oncebox listen stripe --secret-env STRIPE_SECRET --url https://example.ngrok.app",
    "oncebox listen --app app.js",
  ],
  async run(input) {
    const { values, terminal } = input;
    const { sources, keys, port } = await listenSources(input);
    const publicUrl = text(values, "url")?.replace(/\/+$/, "");
    if (publicUrl !== undefined && !URL.canParse(publicUrl))
      throw new UsageError("--url must be an absolute URL.");
    const db = await openDatabase("sqlite::memory:"); // to tell duplicates; nothing is handled, and nothing is kept
    await migrate(db, { outbox: false });
    const run = await startListening({
      sources,
      inbox: createInbox(db),
      fetchText: developmentDocuments(keys),
      publicUrl,
      host,
      port: count(values, "port") ?? port,
      show: (report) => terminal.out(values.json ? JSON.stringify(report) : reportText(report, new Date())),
      failed: (error) => terminal.err(`oncebox listen: ${safeReason(error)}`),
    });
    const unshare = await shareDevelopmentKeys(run.port, keys);
    try {
      const names = [...sources.keys()];
      const url = `http://${host}:${run.port}`;
      if (values.json) terminal.out(JSON.stringify({ url, sources: names }));
      else introduce(url, names, terminal);
      if (!terminal.signal.aborted) await once(terminal.signal, "abort");
    } finally {
      await unshare();
      await run.stop();
      await db.close();
    }
    return exitCodes.ok;
  },
};

function introduce(url: string, names: readonly string[], { out, self = "npx oncebox" }: Terminal): void {
  const shown = names.length > 5 ? `${names.length} providers` : names.join(", ");
  out(`oncebox listens at ${url}/webhooks/… for ${shown}. Nothing is handled. Ctrl-C stops it.`);
  const [first = "stripe"] = names;
  out(`  a webhook  ${self} sign ${first} --url ${url}/webhooks/${encodeURIComponent(first)} --send`);
}
