import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import type { Metafile } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bundleFunctions } from "../../../src/packaging/bundle-functions.js";
import { startFunctionsHost } from "./functions-host.js";

const databases = ["postgres", "sqlserver"] as const;
const kilobyte = 1024;

describe("bundles for Azure", () => {
  let folder: string;
  const built = new Map<(typeof databases)[number], Metafile["outputs"]>();

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "oncebox-bundles-"));
    for (const database of databases) {
      const outFolder = join(folder, database);
      built.set(database, (await bundleFunctions({ cloud: "azure", database, outFolder })).outputs);
    }
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  /** The files that are loaded when the app starts. */
  const readAtStart = (outputs: Metafile["outputs"]): string[] => {
    const found: string[] = [];
    const visit = (file: string) => {
      if (found.includes(file)) return;
      found.push(file);
      for (const { path, kind } of outputs[file]!.imports) {
        if (kind === "import-statement" && path in outputs) visit(path);
      }
    };
    visit(Object.keys(outputs).find((file) => basename(file) === "main.mjs")!);
    return found;
  };
  /** The modules that are in the output, not all that the bundler read. */
  const contentsOf = (outputs: Metafile["outputs"], files: readonly string[]) =>
    files.flatMap((file) =>
      Object.entries(outputs[file]!.inputs)
        .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
        .map(([input]) => input),
    );

  it("FUN-09 the folder is a function app: an entry point that its package.json names, host.json, and the users of its database", async () => {
    const files = (await readdir(join(folder, "postgres"))).filter((file) => !file.endsWith(".txt"));
    const own = ["host.json", "lazy", "main.mjs", "main.mjs.map", "package.json", "users-postgres.sql"];
    expect(files.sort()).toEqual(own);
    const manifest = JSON.parse(await readFile(join(folder, "postgres/package.json"), "utf8"));
    expect(manifest).toMatchObject({ type: "module", main: "main.mjs" });
  });

  it("SVC-07 FUN-09 the files of the start hold no driver, no SDK, no zod and nothing of the inbox service and of operators, and have at most 312 KB", () => {
    for (const outputs of built.values()) {
      const files = readAtStart(outputs);
      const contents = contentsOf(outputs, files);
      expect(contents.some((file) => file.includes("node_modules/@azure/functions/"))).toBe(true);
      const heavy =
        /node_modules\/(pg|mssql|tedious|@azure\/(storage|identity|keyvault|msal|core)[^/]*|zod)\/|src\/(service|admin|operators)\/|src\/sql\/\w+\/operators\.ts/;
      expect(contents.filter((file) => heavy.test(file))).toEqual([]);
      const bytes = files.reduce((sum, file) => sum + outputs[file]!.bytes, 0);
      expect(bytes).toBeLessThanOrEqual(312 * kilobyte);
    }
  });

  it("FUN-09 no AWS code and no other database is in any file", () => {
    for (const [database, outputs] of built) {
      const contents = contentsOf(outputs, Object.keys(outputs));
      const drivers = { postgres: /node_modules\/pg\//, sqlserver: /node_modules\/(mssql|tedious)\// };
      expect(contents.some((file) => drivers[database].test(file))).toBe(true);
      const other = database === "postgres" ? "sqlserver" : "postgres";
      const foreign = new RegExp(
        `${drivers[other].source}|src/sql/(${other}|sqlite)/|adapters/aws|@aws-sdk|@middy|@smithy`,
      );
      expect(contents.filter((file) => foreign.test(file))).toEqual([]);
    }
  });

  it("FUN-09 a bundle runs with nothing on the module path, up to the connection to an absent database", async () => {
    const urls = { postgres: "postgres://u:p@127.0.0.1:9/x", sqlserver: "mssql://u:p@127.0.0.1:9/x" };
    for (const database of databases) {
      const env = { ONCEBOX_DATABASE_URL: urls[database], STRIPE_WEBHOOK_SECRET: "whsec_x_secret_of_tests" };
      const host = await startFunctionsHost(join(folder, database), env, 60_000);
      try {
        await expect(host.run("dispatch")).rejects.toThrow(/ECONNREFUSED|127\.0\.0\.1:9/);
      } finally {
        await host.stop();
      }
    }
  });
});
