import { writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Plugin, PluginBuild } from "esbuild";
import { loadPreset, presetNames } from "../webhooks/preset-names.js";
import { code, isOncebox } from "./own-package.js";

/** The folder beside a function's file with the presets and the code that few sources need. */
export const webhooksFolder = "webhooks";

/** By its name: its folder, and what it is imported for. */
const lazyModules: ReadonlyMap<string, { readonly folder: string; readonly only: string }> = new Map([
  ["check-scheme", { folder: "schemes", only: "checkScheme" }],
  ["jwt-verifier", { folder: "schemes", only: "createJwtVerifier" }],
  ["provider-keys", { folder: "schemes", only: "certificateKeys, confirmAddress" }],
]);
const presetModules = new Map(presetNames.map((name) => [name as string, { folder: "presets", only: name }]));
const moduleOf = (name: string) => lazyModules.get(name) ?? presetModules.get(name);

const inWebhooks = /[\\/]webhooks[\\/](presets[\\/]index|schemes[\\/]verifier|route|sources)\.[jt]s$/;
/** The list of presets. */
export const presetsFile = /[\\/]webhooks[\\/]presets[\\/]index\.[jt]s$/;
const nameIn = (path: string): string => basename(path, ".js");
const webhooks = join(code, "webhooks");

/**
 * A preset that a source names is loaded by `import()`. Where functions are single files, presets stay files of their own
 * beside them, because `import()` would otherwise put all of them into each function.
 */
export const lazyWebhooks = (isSplit: boolean): Plugin => ({
  name: "lazy webhooks",
  setup(build) {
    build.onResolve({ filter: /^\.\/[\w/-]+\.js$/ }, ({ path, importer, kind }) => {
      const isLazy = kind === "dynamic-import" && inWebhooks.test(importer) && isOncebox(importer);
      const name = nameIn(path);
      if (!isLazy || moduleOf(name) === undefined) return undefined;
      if (!isSplit) return { path: `./${webhooksFolder}/${name}.mjs`, external: true };
      return {
        path: name,
        namespace: "lazy-webhooks",
        pluginData: importer.replace(/(?<=[\\/]webhooks)[\\/].*/, ""),
      };
    });
    if (!isSplit) loadersByName(build);
    loadOnly(build);
    joseWhenInstalled(build);
  },
});

/**
 * The list of all loaders is 3 KB, and says only that a preset is in the file of its name. A preset is data, so the file is
 * JSON: in a cold start, to read it takes 0.2 ms, and `import()` 1 ms.
 */
function loadersByName({ onLoad }: PluginBuild): void {
  onLoad({ filter: presetsFile }, ({ path }) => (isOncebox(path) ? { contents: byName } : undefined));
}

const byName = `import { readFileSync } from "node:fs";
const load = async (name) =>
  JSON.parse(readFileSync(new URL("./${webhooksFolder}/" + name + ".json", import.meta.url), "utf8"));
const names = ${JSON.stringify(presetNames.join(" "))}.split(" ");
export const loaders = Object.fromEntries(names.map((name) => [name, () => load(name)]));`;

/** Writes all presets into the folder beside the functions. */
export async function writePresets(folder: string): Promise<void> {
  for (const name of presetNames)
    await writeFile(join(folder, `${name}.json`), JSON.stringify(await loadPreset(name)));
}

/** The virtual entry points of the files beside the functions. */
export const lazyEntryPoints = (): {
  readonly entryPoints: { in: string; out: string }[];
  readonly plugin: Plugin;
} => ({
  entryPoints: [...lazyModules.keys()].map((name) => ({ in: `oncebox-lazy:${name}`, out: name })),
  plugin: {
    name: "lazy webhooks' entry points",
    setup(build) {
      build.onResolve({ filter: /^oncebox-lazy:/ }, ({ path }) => {
        const name = path.slice("oncebox-lazy:".length);
        return { path: name, namespace: "lazy-webhooks", pluginData: webhooks };
      });
      loadOnly(build);
      joseWhenInstalled(build);
    },
  },
});

function loadOnly({ onLoad }: PluginBuild): void {
  onLoad({ filter: /.*/, namespace: "lazy-webhooks" }, ({ path, pluginData }) => {
    const { folder, only } = moduleOf(path)!;
    return { contents: `export { ${only} } from "./${folder}/${path}.js";`, resolveDir: String(pluginData) };
  });
}

/** An app without JSON web tokens does not install `jose`. */
function joseWhenInstalled(build: PluginBuild): void {
  build.onResolve({ filter: /^jose$/ }, async ({ path, kind, resolveDir, pluginData }) => {
    if (pluginData === "looked for") return undefined;
    const found = await build.resolve(path, { kind, resolveDir, pluginData: "looked for" });
    return found.errors.length > 0 ? { path, external: true } : found;
  });
}
