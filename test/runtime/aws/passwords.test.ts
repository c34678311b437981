import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type StartedServer, startPostgres } from "../../support/start-postgres.js";
import { type BundleFolder, bundleTestApp } from "./bundle-folder.js";
import { type FunctionsDatabase, postgresForFunctions } from "./functions-database.js";
import { answerOf, stripeHttpEvent } from "./http-events.js";
import { lambdaFunction } from "./lambda-function.js";

const methods = ["scram-sha-256", "md5", "password"] as const;
const roleOf = (method: string): string => `by_${method.replaceAll("-", "_")}`;

// A server that is given has its own rules of how to sign in.
describe.skipIf(process.env.ONCEBOX_TEST_POSTGRES_URL)("passwords of PostgreSQL", () => {
  let rules: string;
  let server: StartedServer;
  let bundles: BundleFolder;
  let data: FunctionsDatabase;

  beforeAll(async () => {
    rules = await mkdtemp(join(tmpdir(), "oncebox-passwords-"));
    await chmod(rules, 0o755);
    const file = join(rules, "pg_hba.conf");
    const lines = methods.map((method) => `host all ${roleOf(method)} 127.0.0.1/32 ${method}`);
    await writeFile(file, [...lines, "host all all 127.0.0.1/32 trust", ""].join("\n"), { mode: 0o644 });
    server = await startPostgres([`hba_file=${file}`]);
    bundles = await bundleTestApp("postgres");
    data = await postgresForFunctions(server.url);
    const run = (text: string) => data.db.driver.query({ name: "test", text, unprepared: true }, {});
    for (const method of methods) {
      await run(`set password_encryption = '${method === "md5" ? "md5" : "scram-sha-256"}';
create role ${roleOf(method)} login superuser password 'pass:word'`);
    }
  });
  afterAll(async () => {
    await data.close();
    await bundles.remove();
    await server.stop();
    await rm(rules, { recursive: true, force: true });
  });

  it.each(methods)(
    "FUN-01 FUN-09 a bundle, which loads few parts of pg, signs in by %s, and to a host by its name",
    async (method) => {
      const url = new URL(data.env.ONCEBOX_DATABASE_URL!);
      url.hostname = "localhost";
      url.username = roleOf(method);
      const answers = [];
      for (const password of ["pass:word", "another"]) {
        url.password = password;
        const webhook = lambdaFunction({
          folder: bundles.folder,
          handler: "webhook.handler",
          env: { ...data.env, ONCEBOX_DATABASE_URL: url.href },
        });
        const event = stripeHttpEvent({ id: `evt_${method}_${password.length}` });
        answers.push(answerOf((await webhook.invoke(event)) as APIGatewayProxyStructuredResultV2));
        await webhook.close();
      }
      expect(answers).toEqual([
        { status: 200, outcome: "enqueued" },
        { status: 503, outcome: undefined },
      ]);
    },
  );
});
