import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { createTenantStores, type TenantStoreProvider } from "../../../src/app/tenants.js";
import { postgresTenants } from "../../support/many-tenants.js";

export const tenantApp = fileURLToPath(new URL("tenant-app.ts", import.meta.url));

/** Databases of many tenants, and the environment with which functions find them. */
export interface TenantScenario {
  readonly env: Readonly<Record<string, string>>;
  readonly ids: readonly string[];
  readonly stores: TenantStoreProvider;
  /** Gives each tenant another number of messages and returns them: `p3 evt_2` and so on. */
  fill(name: string, topic?: string): Promise<readonly string[]>;
  /** The handlers' lines that begin with this word, sorted. */
  log(word: string): Promise<readonly string[]>;
  /** The processes that wrote lines. */
  processes(): Promise<ReadonlySet<string>>;
  /** Asserts that every message was handled once, and published once. */
  expectHandled(messages: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

export async function openTenantScenario(count: number, secret: string): Promise<TenantScenario> {
  const { tenants, remove } = await postgresTenants(count, 100);
  const stores = createTenantStores({ discover: () => tenants });
  const folder = await mkdtemp(join(tmpdir(), "oncebox-fan-out-"));
  const file = join(folder, "log");
  const ids = tenants.map(({ id }) => id);
  const lines = async () => {
    const text = await readFile(file, "utf8").catch(() => "");
    return text.split("\n").flatMap((line) => (line === "" ? [] : [line.split(" ")]));
  };
  const log = async (word: string) =>
    (await lines())
      .filter(([first]) => first === word)
      .map(([, store, id]) => `${store} ${id}`)
      .sort();
  return {
    env: {
      TENANTS: JSON.stringify(tenants),
      TENANTS_LOG: file,
      TENANTS_SECRET: secret,
      ONCEBOX_LOG_LEVEL: "warn",
    },
    ids,
    stores,
    async fill(name, topic = "stripe.invoice.paid") {
      const filled: string[] = [];
      for (const [index, id] of ids.entries()) {
        const messages = Array.from({ length: index * 3 }, (_, number) => `${name}_${number}`);
        filled.push(...messages.map((messageId) => `${id} ${messageId}`));
        const inbox = await stores.inbox(id);
        await inbox.enqueue(
          messages.map((messageId) => ({ source: "test", messageId, topic, payload: "{}" })),
        );
      }
      return filled;
    },
    log,
    processes: async () => new Set((await lines()).map(([, , , pid]) => pid!)),
    async expectHandled(messages) {
      expect(await log("handled")).toEqual([...messages].sort());
      expect(await log("published")).toEqual([...messages].sort());
    },
    async close() {
      await stores.close();
      await remove();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
