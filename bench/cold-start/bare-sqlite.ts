import { bareWebhook } from "./bare-webhook.js";

interface SqliteModule {
  readonly DatabaseSync: new (
    file: string,
  ) => {
    exec(text: string): void;
    prepare(text: string): { run(...values: unknown[]): unknown };
  };
}

/** Node's own module, or the package that oncebox uses on Node 20. */
const names: readonly string[] = ["node:sqlite", "@photostructure/sqlite"];

async function load(): Promise<SqliteModule> {
  const [own, other] = names;
  return (import(own!) as Promise<SqliteModule>).catch(() => import(other!));
}

export const handler = bareWebhook(async (id, payload) => {
  const { DatabaseSync } = await load();
  const db = new DatabaseSync(process.env.ONCEBOX_DATABASE_URL!.replace("sqlite:", ""));
  db.exec("pragma journal_mode = wal; pragma synchronous = normal");
  db.prepare("insert into bare (id, payload) values (?, ?) on conflict do nothing").run(id, payload);
});
