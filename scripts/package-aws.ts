/** `npm run package:aws [-- --database postgres] [--app file] [--entra]`: one archive per function, as serverless.yml names them. */
import { readFile, rm } from "node:fs/promises";
import { basename, join, relative, resolve } from "node:path";
import { writeArchive } from "./archive.js";
import { bundleFunctions } from "./bundle-functions.js";
import { packageOptions } from "./package-options.js";

const options = await packageOptions("aws", { database: "postgres", entra: false });
const folder = join(options.outFolder, "functions");
await rm(options.outFolder, { recursive: true, force: true });
const { outputs } = await bundleFunctions({ ...options, cloud: "aws", outFolder: folder });

// The maps stay behind: they would only make the start slower.
const modules = Object.keys(outputs).filter((file) => file.endsWith(".mjs"));
for (const module of modules) {
  const name = basename(module, ".mjs");
  const legal = `${name}.mjs.LEGAL.txt`;
  const hasLegal = (await readFile(join(folder, legal)).catch(() => undefined)) !== undefined;
  const archive = resolve(options.outFolder, `${name}.zip`);
  const bytes = await writeArchive(archive, folder, [`${name}.mjs`, ...(hasLegal ? [legal] : [])]);
  console.log(`${relative("", archive)}  ${Math.ceil(bytes / 1024)} KB`);
}
