// npm run package:aws, npm run package:azure: bundles the functions and makes the archives that are deployed.
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, join, relative } from "node:path";
import { build } from "esbuild";
import { zipSync } from "fflate";

const [cloud, database] = process.argv.slice(2);
const openers = { postgres: "openPostgres", sqlserver: "openSqlServer" };
const clouds = {
  // Lambda brings the AWS SDK along.
  aws: { external: ["@aws-sdk/*"], splitting: false },
  // What is loaded lazily gets a file of its own: a function that needs no Key Vault does not read its client.
  azure: { external: ["@azure/functions-core"], splitting: true },
};
if (!(cloud in clouds) || !(database in openers)) {
  throw new Error("usage: node scripts/package.mjs aws|azure postgres|sqlserver");
}

/** One database's driver, loaded at once; the other ones stay out of the bundle. */
const oneDatabase = {
  name: "one database",
  setup({ onLoad }) {
    onLoad({ filter: /oncebox[\\/]dist[\\/]config[\\/]database-openers\.js$/ }, () => ({
      contents: `import { ${openers[database]} } from "../sql/${database}/index.js";
const refuse = async () => { throw new Error("This bundle was built for ${database}."); };
export const databaseOpeners = { sqlserver: refuse, postgres: refuse, sqlite: refuse, ${database}: async () => ${openers[database]} };`,
      resolveDir: join("node_modules/oncebox/dist/config"),
    }));
  },
};

const out = join("build", cloud);
const folder = join(out, cloud === "aws" ? "functions" : "app");
const sources = (await readdir(join("functions", cloud))).filter((name) => name.endsWith(".ts"));
await rm(out, { recursive: true, force: true });
await build({
  entryPoints: sources.map((name) => join("functions", cloud, name)),
  outdir: folder,
  external: [...clouds[cloud].external, "pg-native", "@photostructure/sqlite"],
  splitting: clouds[cloud].splitting,
  plugins: [oneDatabase],
  bundle: true,
  minify: true,
  platform: "node",
  target: "node20",
  format: "esm",
  outExtension: { ".js": ".mjs" },
  chunkNames: "lazy/[name]-[hash]",
  legalComments: "external",
  logLevel: "warning",
  // Drivers are CommonJS and require Node's own modules.
  banner: {
    js: 'import { createRequire as fromHere } from "node:module"; const require = fromHere(import.meta.url);',
  },
});

if (cloud === "aws") {
  for (const name of sources) await archive(`${basename(name, ".ts")}.zip`, [`${basename(name, ".ts")}.mjs`]);
} else {
  const manifest = { name: "functions", private: true, type: "module", main: "main.mjs" };
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "package.json"), JSON.stringify(manifest));
  await writeFile(join(folder, "host.json"), await readFile("host.json"));
  const files = await readdir(folder, { recursive: true, withFileTypes: true });
  await archive(
    "app.zip",
    files.filter((file) => file.isFile()).map((file) => relative(folder, join(file.parentPath, file.name))),
  );
}

/** Readable by everybody, and the same for the same content. */
async function archive(name, files) {
  const attributes = { os: 3, attrs: (0o100644 << 16) >>> 0, mtime: new Date(1980, 0, 2) };
  const entries = await Promise.all(
    files
      .sort()
      .map(async (file) => [file.replaceAll("\\", "/"), [await readFile(join(folder, file)), attributes]]),
  );
  const bytes = zipSync(Object.fromEntries(entries), { level: 9 });
  await writeFile(join(out, name), bytes);
  console.log(`${join(out, name)}  ${Math.ceil(bytes.length / 1024)} KB`);
}
