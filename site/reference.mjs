// Writes the API reference as Markdown, one page per module of the package. TypeDoc reads the sources with a TypeScript of
// its own, because it does not know the newest one. scripts/build-docs.ts starts it.
//
//   node site/reference.mjs ENTRIES.json OUT_FOLDER
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { Application, Converter, ReflectionKind } from "typedoc";

const [, , entriesFile, out] = process.argv;
const root = fileURLToPath(new URL("..", import.meta.url));
const entries = JSON.parse(await readFile(entriesFile, "utf8"));

const app = await Application.bootstrapWithPlugins({
  plugin: ["typedoc-plugin-markdown"],
  tsconfig: `${root}tsconfig.build.json`,
  entryPoints: entries.map(({ source }) => root + source),
  basePath: `${root}src`,
  out,
  readme: "none",
  router: "module",
  skipErrorChecking: true, // `npm run typecheck` checks them, with the project's own TypeScript
  disableSources: true,
  excludeExternals: true,
  excludeInternal: true,
  excludePrivate: true,
  groupOrder: ["Functions", "Variables", "Classes", "Interfaces", "Type Aliases", "*"],
  hideBreadcrumbs: true,
  hidePageHeader: true,
  useCodeBlocks: true,
  expandParameters: true,
  pageTitleTemplates: { module: ({ name }) => (name === "oncebox" ? name : `oncebox/${name}`) },
  indexFormat: "table",
  parametersFormat: "table",
  interfacePropertiesFormat: "table",
  classPropertiesFormat: "table",
  typeAliasPropertiesFormat: "table",
  propertyMembersFormat: "table",
  typeDeclarationFormat: "table",
});

/** A module is named as it is imported, and not by the file that it comes from. */
const names = new Map(
  entries.map(({ source, name }) => [source.replace(/^src\/|(\/index)?\.ts$/g, ""), name]),
);
app.converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }) => {
  for (const module of project.getReflectionsByKind(ReflectionKind.Module)) {
    const name = names.get(module.name);
    if (name === undefined) throw new Error(`No module of the package is "${module.name}".`);
    module.name = name.replace(/^oncebox\//, "");
  }
});

const project = await app.convert();
if (project === undefined || app.logger.hasErrors()) process.exit(1);
await app.generateOutputs(project);
if (app.logger.hasErrors() || app.logger.hasWarnings()) process.exit(1);
