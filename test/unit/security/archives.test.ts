import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { unzipSync } from "fflate";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageFunctions } from "../../../src/packaging/package-functions.js";

const secret = "hidden-value-0123456789";
const handler = "export const handler = () => 'handled';\n";

/** What a project may have beside its functions, which must not be deployed. */
const decoys: Readonly<Record<string, string>> = {
  ".env": `KEY=${secret}`,
  ".env.production": `KEY=${secret}`,
  ".npmrc": `//registry.npmjs.org/:_authToken=${secret}`,
  "local.settings.json": JSON.stringify({ Values: { KEY: secret } }),
  "oncebox.db": secret,
  "key.pem": secret,
  ".git/config": secret,
  ".aws/credentials": secret,
  "infra/sql/users-postgres.sql.bak": secret,
  "infra/sql/users-sqlite.sql": `-- ${secret}`,
  "infra/aws/secrets.yml": secret,
  "functions/.env": secret,
  "functions/local.settings.json": secret,
};

/** Beside the functions themselves, with names that look like functions, or that would leave the folder of an archive. */
const besideFunctions: Readonly<Record<string, string>> = {
  ".env": secret,
  "webhook.env": secret,
  "webhook.json": secret,
  "webhook.ts.bak": secret,
  "webhook.zip": secret,
  ".hidden.ts": `export const key = "${secret}";\n`,
  "webhook.d.ts": `export declare const key: "${secret}";\n`,
  "webhook.test.ts": `console.log("${secret}");\n`,
  "webhook.local.ts": `console.log("${secret}");\n`,
  "..\\evil.ts": `console.log("${secret}");\n`,
  "C:evil.ts": `console.log("${secret}");\n`,
  "line\nbreak.ts": `console.log("${secret}");\n`,
};

async function write(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), content);
  }
}

/** The entries of an archive as its directory says them: name, mode. */
function directoryOf(zip: Buffer): readonly { readonly name: string; readonly mode: number }[] {
  const entries: { name: string; mode: number }[] = [];
  const signature = Buffer.from([0x50, 0x4b, 1, 2]);
  for (let at = zip.indexOf(signature); at >= 0; at = zip.indexOf(signature, at + 4)) {
    const length = zip.readUInt16LE(at + 28);
    entries.push({
      name: zip.subarray(at + 46, at + 46 + length).toString(),
      mode: zip.readUInt32LE(at + 38) >>> 16,
    });
  }
  return entries;
}

describe("what is in an archive", () => {
  let parent: string;
  beforeAll(async () => {
    parent = await mkdtemp(join(tmpdir(), "oncebox-archives-"));
  });
  afterAll(() => rm(parent, { recursive: true, force: true }));

  async function packed(cloud: "aws" | "azure", functions: Readonly<Record<string, string>>) {
    const folder = await mkdtemp(join(parent, "app-"));
    await write(folder, {
      ...decoys,
      "host.json": '{"version":"2.0"}',
      "infra/sql/users-postgres.sql": "-- users",
    });
    await write(join(folder, "functions", cloud), { ...functions, ...besideFunctions });
    await write(parent, { "outside.txt": secret });
    await symlink(join(parent, "outside.txt"), join(folder, "functions", cloud, "link.txt"));
    await symlink(parent, join(folder, "functions", cloud, "up"));
    const outFolder = join(folder, "build/out");
    const archives = await packageFunctions({ cloud, database: "postgres", folder, outFolder });
    const zips = await Promise.all(
      archives.map(async ({ file }) => [basename(file), await readFile(file)] as const),
    );
    return { folder, zips: new Map(zips) };
  }

  const entriesOf = (zips: ReadonlyMap<string, Buffer>) =>
    Object.fromEntries(
      [...zips].map(([name, zip]) => [
        name,
        directoryOf(zip)
          .map((entry) => entry.name)
          .sort(),
      ]),
    );

  function expectNothingLeaks(zips: ReadonlyMap<string, Buffer>, folder: string): void {
    for (const zip of zips.values()) {
      for (const { name, mode } of directoryOf(zip)) {
        expect(name).toMatch(/^(?:[\w-][\w.-]*\/)*[\w-][\w.-]*$/); // neither absolute nor upwards, nor with a drive
        expect(mode).toBe(0o100644); // a file, no link
      }
      const text = Object.values(unzipSync(zip)).map((bytes) => Buffer.from(bytes).toString());
      for (const told of [secret, folder, parent]) expect(text.join("\n").includes(told), told).toBe(false);
    }
  }

  it("FUN-10 on AWS each function's own files, and nothing that lies beside them", async () => {
    const { zips, folder } = await packed("aws", {
      "webhook.ts": handler,
      "migrate.ts": handler,
      "web.mts": handler,
    });
    expect(entriesOf(zips)).toEqual({
      "migrate.zip": ["migrate.mjs", "migrate.users-postgres.sql"],
      "web.zip": ["web.mjs"],
      "webhook.zip": ["webhook.mjs"],
    });
    expectNothingLeaks(zips, folder);
  });

  it("FUN-10 on Azure the bundle, its manifest, the host's settings and the users' script", async () => {
    const { zips, folder } = await packed("azure", { "main.ts": handler });
    expect(entriesOf(zips)).toEqual({
      "app.zip": ["host.json", "main.mjs", "package.json", "users-postgres.sql"],
    });
    expectNothingLeaks(zips, folder);
  });

  it("FUN-10 the same project gives the same bytes", async () => {
    const [one, two] = [
      await packed("azure", { "main.ts": handler }),
      await packed("azure", { "main.ts": handler }),
    ];
    expect(one.zips.get("app.zip")!.equals(two.zips.get("app.zip")!)).toBe(true);
  });
});
