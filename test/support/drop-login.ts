import { setTimeout as sleep } from "node:timers/promises";
import { openSqlServer } from "../../src/sql/sqlserver/index.js";
import { patient } from "./sqlserver-harness.js";

const loggedIn = /currently logged in/;
const tries = 120;

/**
 * Drops a login with its user, when its schema is gone. A server ends a session some time after its connection was closed,
 * and refuses to drop the login until then.
 */
export async function dropLogin(url: string, login: string, more: readonly string[] = []): Promise<void> {
  const server = openSqlServer({ url, maxConnections: 1, config: patient });
  const run = (text: string) => server.driver.query({ name: "drop", text, unprepared: true }, {});
  try {
    for (const text of [`drop user if exists [${login}]`, ...more]) await run(text);
    for (let attempt = 1; ; attempt++) {
      const error = await run(`drop login [${login}]`).then(
        () => undefined,
        (reason: unknown) => reason,
      );
      if (error === undefined) return;
      if (attempt === tries || !loggedIn.test(String(error))) throw error;
      await sleep(500);
    }
  } finally {
    await server.close();
  }
}
