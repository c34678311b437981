/** `npm run package:azure [-- --database sqlserver] [--app file] [--no-entra]`: one archive, the whole function app. */
import { readdir, rm } from "node:fs/promises";
import { join, relative } from "node:path";
import { writeArchive } from "./archive.js";
import { bundleFunctions } from "./bundle-functions.js";
import { packageOptions } from "./package-options.js";

// With Entra: infra/azure gives the functions an identity and the database no passwords.
const options = await packageOptions("azure", { database: "sqlserver", entra: true });
const folder = join(options.outFolder, "app");
await rm(options.outFolder, { recursive: true, force: true });
await bundleFunctions({ ...options, cloud: "azure", outFolder: folder });

const files = await readdir(folder, { recursive: true, withFileTypes: true });
const names = files
  .filter((entry) => entry.isFile() && !entry.name.endsWith(".map"))
  .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
const archive = join(options.outFolder, "app.zip");
const bytes = await writeArchive(archive, folder, names);
console.log(`${relative("", archive)}  ${Math.ceil(bytes / 1024)} KB`);
