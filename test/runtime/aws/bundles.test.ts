import { execFile } from "node:child_process";
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import type { Metafile } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Envelope, signEnvelope } from "../../../src/messaging/index.js";
import { bundle, bundleFunctions, clouds } from "../../../src/packaging/bundle-functions.js";
import { type BundledDatabase, databases } from "../../../src/packaging/own-package.js";
import { loadPreset, presetNames } from "../../../src/webhooks/preset-names.js";
import { httpEvent, stripeHttpEvent, webhookSecret } from "./http-events.js";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../../..", import.meta.url));
const kilobyte = 1024;

describe("bundles for Lambda", () => {
  let folder: string;
  const built = new Map<BundledDatabase, Metafile>();

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "oncebox-bundles-"));
    for (const database of databases) {
      built.set(
        database,
        await bundleFunctions({
          cloud: "aws",
          database,
          service: true,
          admin: true,
          outFolder: join(folder, database),
        }),
      );
    }
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  const outputOf = (metafile: Metafile, name: string) => {
    const found = Object.entries(metafile.outputs).find(([file]) => basename(file) === `${name}.mjs`);
    return found![1];
  };
  /** The files whose code is in the output. */
  const contentsOf = (metafile: Metafile, name: string) =>
    Object.entries(outputOf(metafile, name).inputs)
      .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
      .map(([file]) => file);

  it("FUN-09 one file per function, with its source map beside it, and the presets of webhooks in files of their own", async () => {
    const files = (await readdir(join(folder, "postgres"))).filter((file) => !file.endsWith(".txt"));
    const names = ["admin", "cleanup", "consume", "dispatch", "inbox-service", "migrate", "reap", "webhook"];
    // The function that migrates makes the functions' user by this script.
    expect(files.filter((file) => file.endsWith(".sql"))).toEqual(["migrate.users-postgres.sql"]);
    const code = files.filter((file) => !file.endsWith(".sql"));
    const own = names.flatMap((name) => [`${name}.mjs`, `${name}.mjs.map`]);
    expect(code.sort()).toEqual([...own, "webhooks"].sort());
    const lazy = await readdir(join(folder, "postgres/webhooks"));
    expect(lazy.filter((file) => file.endsWith(".mjs")).sort()).toEqual(
      ["check-scheme", "jwt-verifier", "provider-keys"].map((name) => `${name}.mjs`),
    );
    const presets = lazy.filter((file) => file.endsWith(".json"));
    expect(presets.sort()).toEqual(presetNames.map((name) => `${name}.json`).sort());
    for (const name of presetNames) {
      const preset = await readFile(join(folder, `postgres/webhooks/${name}.json`), "utf8");
      expect(JSON.parse(preset), name).toEqual(await loadPreset(name));
    }
  });

  it("FUN-09 a webhook function on PostgreSQL has at most 181 KB, its driver included", () => {
    const output = outputOf(built.get("postgres")!, "webhook");
    const isDriver = (file: string) => file.endsWith("node_modules/pg/lib/client.js");
    expect(contentsOf(built.get("postgres")!, "webhook").some(isDriver)).toBe(true);
    expect(output.bytes).toBeLessThanOrEqual(181 * kilobyte);
    const contents = contentsOf(built.get("postgres")!, "webhook");
    expect(contents.filter((file) => /schemes\/check-|node_modules\/zod\//.test(file))).toEqual([]);
  });

  it("FUN-09 a program that takes inbox, outbox and worker from the root has no driver, no app, and at most 92 KB", async () => {
    const metafile = await bundle({
      database: "postgres",
      entryPoints: [join(root, "test/runtime/aws/core.ts")],
      external: [],
      outFolder: join(folder, "core"),
    });
    const contents = contentsOf(metafile, "core");
    expect(contents.filter((file) => /node_modules|src\/(app|webhooks|config)\//.test(file))).toEqual([]);
    expect(outputOf(metafile, "core").bytes).toBeLessThanOrEqual(92 * kilobyte);
  });

  it("FUN-09 the function that recovers GitHub's deliveries has no database, no route, and at most 40 KB", async () => {
    const metafile = await bundle({
      database: "postgres",
      entryPoints: [join(root, "test/runtime/aws/recover.ts")],
      external: clouds.aws.external,
      outFolder: join(folder, "recover"),
    });
    const contents = contentsOf(metafile, "recover");
    expect(
      contents.filter((file) => /src\/(sql|inbox|outbox|webhooks\/schemes)\/|node_modules\/pg/.test(file)),
    ).toEqual([]);
    expect(outputOf(metafile, "recover").bytes).toBeLessThanOrEqual(40 * kilobyte);
  });

  it("FUN-09 no function holds another database, another cloud, an AWS SDK, or the large zod", () => {
    const drivers = { sqlserver: /tedious|mssql/, postgres: /node_modules\/pg/, sqlite: /photostructure/ };
    for (const [database, metafile] of built) {
      const names = [
        "webhook",
        "consume",
        "dispatch",
        "reap",
        "cleanup",
        "inbox-service",
        "admin",
        "migrate",
      ];
      for (const name of names) {
        const contents = contentsOf(metafile, name);
        const others = databases.filter((other) => other !== database);
        for (const other of others) {
          expect(contents.filter((file) => file.includes(`src/sql/${other}/`))).toEqual([]);
          expect(contents.filter((file) => drivers[other].test(file))).toEqual([]);
        }
        expect(contents.filter((file) => file.includes("src/adapters/azure"))).toEqual([]);
        expect(contents.filter((file) => /node_modules\/(@aws-sdk|@smithy)\//.test(file))).toEqual([]);
        // Except the packages by which SQL Server's driver checks a caller's own credential.
        const azure = /node_modules\/@azure\/(?!core-auth|core-util|abort-controller)/;
        expect(contents.filter((file) => azure.test(file))).toEqual([]);
        expect(contents.filter((file) => /zod\/v[34]\/(classic|helpers|types)/.test(file))).toEqual([]);
      }
    }
  });

  it("FUN-09 a function holds its own job and not the others'", () => {
    const jobs = /src\/(app\/(webhook|consume|dispatch)-job|webhooks\/route|dispatch\/dispatch-run)\.ts/;
    const jobsIn = (name: string) =>
      contentsOf(built.get("postgres")!, name).filter((file) => jobs.test(file));
    expect(jobsIn("webhook").sort()).toEqual(["src/app/webhook-job.ts", "src/webhooks/route.ts"]);
    expect(jobsIn("dispatch").sort()).toEqual(["src/app/dispatch-job.ts", "src/dispatch/dispatch-run.ts"]);
    expect(jobsIn("consume")).toEqual(["src/app/consume-job.ts"]);
    expect([...jobsIn("reap"), ...jobsIn("cleanup")]).toEqual([]);
  });

  it("FUN-07 FUN-09 a function of an app with one database holds no code for tenants but the message that starts a worker", () => {
    const tenants = /src\/(tenants\/|app\/(multi-tenant|open-tenants|tenant-reports))/;
    for (const metafile of built.values()) {
      const contents = ["webhook", "consume", "dispatch", "reap", "cleanup"].flatMap((name) =>
        contentsOf(metafile, name).filter((file) => tenants.test(file)),
      );
      expect([...new Set(contents)]).toEqual(["src/tenants/fan-out/tenant-batch.ts"]);
    }
  });

  it("SVC-07 FUN-09 only its own function holds the inbox service; the clean-up's holds the keys' store, and no other does", () => {
    const service = /src\/inbox-store\//;
    for (const metafile of built.values()) {
      const partsIn = (name: string) => contentsOf(metafile, name).filter((file) => service.test(file));
      expect(["webhook", "consume", "dispatch", "reap"].flatMap(partsIn)).toEqual([]);
      expect(partsIn("cleanup").filter((file) => file.includes("/http/"))).toEqual([]);
      expect(partsIn("inbox-service")).toContain("src/inbox-store/http/inbox-service.ts");
    }
    const size = outputOf(built.get("postgres")!, "inbox-service").bytes;
    expect(size).toBeLessThanOrEqual(261 * kilobyte);
  });

  it("MSG-14 FUN-09 only its own function holds the diagnostics API, which holds neither dispatcher nor webhooks", () => {
    for (const metafile of built.values()) {
      const adminIn = (name: string) =>
        contentsOf(metafile, name).filter((file) => /src\/(admin\/|app\/admin)/.test(file));
      const others = ["webhook", "consume", "dispatch", "reap", "cleanup", "inbox-service"];
      expect(others.flatMap(adminIn)).toEqual([]);
      expect(adminIn("admin")).toContain("src/admin/create-admin.ts");
      const foreign = /src\/(dispatch\/dispatch-run|webhooks\/route|app\/(dispatch|webhook|consume)-job)\.ts/;
      expect(contentsOf(metafile, "admin").filter((file) => foreign.test(file))).toEqual([]);
    }
  });

  it("ADD-02 FUN-09 only the diagnostics API's function holds what operators do, and the statements of its own database for it", () => {
    const operators = /src\/(operators\/|sql\/\w+\/operators\.ts$)/;
    for (const metafile of built.values()) {
      const partsIn = (name: string) => contentsOf(metafile, name).filter((file) => operators.test(file));
      const others = ["webhook", "consume", "dispatch", "reap", "cleanup", "inbox-service"];
      expect(others.flatMap(partsIn)).toEqual([]);
      expect(partsIn("admin")).toContain("src/operators/operators-of.ts");
      expect(partsIn("admin").filter((file) => /sql\/\w+\/operators\.ts$/.test(file))).toHaveLength(1);
    }
  });

  it("FUN-09 a webhook's function holds the receiver, and neither the rest of the inbox nor the schema", () => {
    const rest =
      /src\/(sql\/(\w+\/)?(store|queue|leases|maintenance|reads|migrate|schema|receive-routines|keys|history|views|controls)\.ts|outbox\/)/;
    for (const metafile of built.values()) {
      expect(contentsOf(metafile, "webhook").filter((file) => rest.test(file))).toEqual([]);
      expect(contentsOf(metafile, "dispatch").filter((file) => rest.test(file))).not.toEqual([]);
    }
  });

  it.each(["sqlserver", "postgres"] as const)(
    "FUN-09 on %s the packages of Microsoft Entra are included only with the option entra",
    async (database) => {
      const webhook = join(root, "functions/aws/webhook.ts");
      const settings = { database, entryPoints: [webhook], external: ["@aws-sdk/*"] };
      const metafile = await bundle({
        ...settings,
        entra: true,
        outFolder: join(folder, `entra-${database}`),
      });
      const isEntra = (file: string) => file.includes("node_modules/@azure/identity/");
      expect(contentsOf(metafile, "webhook").some(isEntra)).toBe(true);
      expect(contentsOf(built.get(database)!, "webhook").some(isEntra)).toBe(false);
    },
  );

  /** Runs a bundle in a process of its own, from a folder where no package can be found. */
  const invoke = async (
    [bundles, name]: readonly [string, string],
    url: string,
    event: unknown = {},
    env: Readonly<Record<string, string>> = {},
  ): Promise<{ readonly answer: unknown; readonly loaded: readonly string[]; readonly logged: string }> => {
    const file = pathToFileURL(join(folder, bundles, `${name}.mjs`)).href;
    const code = `const { handler } = await import(${JSON.stringify(file)});
      const context = { getRemainingTimeInMillis: () => 20000 };
      const answer = await handler(${JSON.stringify(event)}, context).catch((error) => error.message);
      process.stdout.write("\\n" + JSON.stringify({ answer, loaded: process.moduleLoadList }));
      process.exit();`;
    const { stdout } = await run(process.execPath, ["--no-warnings", "--input-type=module", "-e", code], {
      cwd: folder,
      env: {
        PATH: process.env.PATH,
        ONCEBOX_DATABASE_URL: url,
        STRIPE_WEBHOOK_SECRET: webhookSecret,
        ...env,
      },
    });
    const [report, ...logged] = stdout.split("\n").reverse();
    return { ...JSON.parse(report!), logged: logged.reverse().join("\n") };
  };
  const nowhere = "postgres://u:p@127.0.0.1:9/x";

  it("FUN-09 each bundle runs with nothing on the module path, until it fails to reach the database", async () => {
    expect((await invoke(["postgres", "dispatch"], nowhere)).answer).toMatch(/ECONNREFUSED/);
    expect((await invoke(["sqlserver", "dispatch"], "mssql://u:p@127.0.0.1:9/x")).answer).toMatch(
      /127\.0\.0\.1:9/,
    );
  });

  it("FUN-02 FUN-09 a webhook's function holds no preset, and loads the one that its source names and no other", async () => {
    for (const metafile of built.values()) {
      const presets = /webhooks\/presets\/(?!index)/;
      expect(contentsOf(metafile, "webhook").filter((file) => presets.test(file))).toEqual([]);
    }
    const alone = join(folder, "alone"); // with no other preset
    await mkdir(join(alone, "webhooks"), { recursive: true });
    for (const file of ["webhook.mjs", "webhooks/stripe.json"])
      await copyFile(join(folder, "postgres", file), join(alone, file));
    const event = httpEvent({ rawPath: "/webhooks/stripe", body: "{}", headers: {} });
    const { answer } = await invoke(["alone", "webhook"], nowhere, event);
    expect(answer).toMatchObject({ statusCode: 415 });
  });

  it("FUN-02 FUN-09 a function without a route finds the presets beside it, too", async () => {
    const outFolder = join(folder, "load-preset");
    await bundle({
      database: "postgres",
      entryPoints: [join(root, "test/runtime/aws/load-preset.ts")],
      external: clouds.aws.external,
      outFolder,
    });
    const file = pathToFileURL(join(outFolder, "load-preset.mjs")).href;
    const program = `const { topicOf } = await import("${file}"); console.log(await topicOf("stripe"));`;
    const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", program]);
    expect(stdout.trim()).toBe("{json:type}");
  });

  it("FUN-03 FUN-09 a bundle checks ONCEBOX_WEBHOOKS, and its error names the field and the problem", async () => {
    const env = { ONCEBOX_WEBHOOKS: '{"own": 5}', PORT: "x" };
    const { answer } = await invoke(["postgres", "dispatch"], nowhere, {}, env);
    expect(answer).toBe("ONCEBOX_WEBHOOKS: own: must be an object; PORT must be a number from 0 to 65535.");
    const right = {
      ONCEBOX_WEBHOOKS: '{"own": {"scheme": "stripe", "secrets": ["whsec_1_secret_of_tests"]}}',
    };
    const event = stripeHttpEvent({
      id: "evt_1",
      rawPath: "/webhooks/own",
      secret: "whsec_1_secret_of_tests",
    });
    expect((await invoke(["postgres", "webhook"], nowhere, event, right)).answer).toMatchObject({
      statusCode: 503,
    });
  });

  it("FUN-09 a webhook function loads neither Node's fetch, which takes longer than all of its own code, nor perf_hooks", async () => {
    const event = stripeHttpEvent({ id: "evt_1" });
    const { answer, loaded } = await invoke(["postgres", "webhook"], nowhere, event);
    expect(answer).toMatchObject({ statusCode: 503, body: '{"error":"unavailable"}' });
    expect(loaded.some((name) => name.includes("crypto"))).toBe(true);
    expect(loaded.filter((name) => /undici|perf_hooks/.test(name))).toEqual([]);
    // what Node loads with the first use of a part of these modules
    const lazily = /(webcrypto|blocklist|internal\/file|fs\/streams| dns)$/;
    expect(loaded.filter((name) => lazily.test(name))).toEqual([]);
  });

  it("SVC-07 FUN-09 the function of an app without a service answers 503, and logs what to add", async () => {
    const event = httpEvent({ rawPath: "/v1/inbox/try-begin", body: '{"key":"a"}' });
    const { answer, logged } = await invoke(["postgres", "inbox-service"], nowhere, event);
    expect(answer).toMatchObject({
      statusCode: 503,
      headers: { "retry-after": "1", "oncebox-auth": "bearer" },
    });
    expect(logged).toContain("This app has no service. Add one");
  });

  it("MSG-14 FUN-09 the function of an app without admin answers 503, and says what to add only in the log", async () => {
    const event = httpEvent({ method: "GET", rawPath: "/_oncebox/health" });
    const { answer, logged } = await invoke(["postgres", "admin"], nowhere, event);
    expect(answer).toMatchObject({ statusCode: 503, headers: { "retry-after": "1" } });
    expect(JSON.stringify(answer)).not.toContain("defineApp");
    expect(logged).toContain("This app has no diagnostics API. Add one");
  });

  it("SVC-07 FUN-09 the function of the inbox service does not load Node's fetch", async () => {
    const app = join(root, "test/runtime/inbox-service-app.ts");
    const entryPoints = [join(root, "functions/aws/inbox-service.ts")];
    const outFolder = join(folder, "service");
    await bundle({ database: "postgres", app, entryPoints, external: ["@aws-sdk/*"], outFolder });
    const token = "bundle-token-0123456789";
    const headers = { authorization: `Bearer ${token}` };
    const event = httpEvent({ rawPath: "/v1/inbox/try-begin", body: '{"key":"a"}', headers });
    const env = { SCENARIO_SCHEMA: "x", INBOX_SERVICE_TOKENS: token };
    const { answer, loaded, logged } = await invoke(["service", "inbox-service"], nowhere, event, env);
    expect(answer).toMatchObject({ statusCode: 503, body: expect.stringContaining('"Unavailable"') });
    expect(logged).toMatch(/"inbox service","call":"try-begin","outcome":"Unavailable","status":503/);
    expect(loaded.filter((name) => name.includes("undici"))).toEqual([]);
  });

  it("MSG-09 FUN-09 a receiver of messages on PostgreSQL has at most 356 KB without gRPC, holds no server, and does not load Node's fetch", async () => {
    const metafile = await bundle({
      database: "postgres",
      entryPoints: [join(root, "test/runtime/message-app/aws/receive.ts")],
      external: [...clouds.aws.external, "@grpc/*"], // gRPC as if it were not installed
      outFolder: join(folder, "messages"),
    });
    expect(outputOf(metafile, "receive").bytes).toBeLessThanOrEqual(356 * kilobyte);
    const foreign =
      /node_modules\/(@grpc|protobufjs|express|fastify|@azure)\/|\/(transports\/listen[\w-]*|receiver-middleware|node-server)\.ts$/;
    expect(contentsOf(metafile, "receive").filter((file) => foreign.test(file))).toEqual([]);

    const secret = Buffer.alloc(24, 1).toString("base64");
    const message: Envelope = {
      messageId: "a1b2c3d4-e5f6-7890-abcd-ef1234567890",
      correlationId: null,
      sourceServiceId: "office",
      messageType: "Command",
      endpoint: "Reserve",
      payload: { item: "chair" },
      headers: {},
    };
    const body = signEnvelope(message, { destination: "cloud", secrets: [secret], now: new Date() });
    const env = {
      TEST_DATABASE_URL: nowhere,
      TEST_SECRET: secret,
      TEST_OFFICE: "http://127.0.0.1:9",
      ONCEBOX_LOG_LEVEL: "silent",
    };
    const { answer, loaded } = await invoke(["messages", "receive"], nowhere, httpEvent({ body }), env);
    expect(answer).toMatchObject({
      statusCode: 500,
      body: expect.stringMatching(/^\{"acknowledged":false,.*ECONNREFUSED/),
    });
    expect(loaded.filter((name) => name.includes("undici"))).toEqual([]);
  });

  it("FUN-09 a bundle names the database it was built for when it is given another one", async () => {
    const { answer } = await invoke(["postgres", "dispatch"], "sqlite:app.db");
    expect(answer).toBe(
      "This bundle was built for postgres. Build it with --database sqlite for this database.",
    );
  });

  it("FUN-09 a webhook's function logs the database it was built for when it is given another one", async () => {
    const event = stripeHttpEvent({ id: "evt_1" });
    const { answer, logged } = await invoke(["postgres", "webhook"], "sqlite:app.db", event);
    expect(answer).toMatchObject({ statusCode: 503 });
    expect(logged).toContain(
      "This bundle was built for postgres. Build it with --database sqlite for this database.",
    );
  });
});
