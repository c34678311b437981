import { readdirSync, readFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../../src", import.meta.url));

interface Import {
  readonly file: string;
  readonly from: string;
  readonly typeOnly: boolean;
}

const files = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
const statementPattern =
  /(?:^|\n)\s*(import|export)\s+(type\s+)?[^;"']*?from\s+["']([^"']+)["']|import\(\s*["']([^"']+)["']\s*\)/g;

const imports: Import[] = files.flatMap((name) => {
  const file = name.split(sep).join("/");
  const text = readFileSync(join(root, name), "utf8");
  return [...text.matchAll(statementPattern)].map((match) => ({
    file,
    from: match[3] ?? match[4]!,
    typeOnly: match[2] !== undefined,
  }));
});

/** Where a relative import leads, from src. */
const target = ({ file, from }: Import) =>
  relative(root, join(root, file, "..", from))
    .split(sep)
    .join("/");
const isRelative = ({ from }: Import) => from.startsWith(".");

const inFolder = (folder: string) => (entry: Import) => entry.file.startsWith(`${folder}/`);

/** From the bottom to the top. A file imports its own folder and the layers below; folders of one layer do not meet. */
const layers: readonly (readonly string[])[] = [
  ["errors"],
  ["base"],
  ["queue"],
  ["dispatch"],
  ["sql"],
  ["inbox", "outbox"],
  ["operators"],
  ["telemetry"],
  ["config"],
  ["http"],
  ["middleware"],
  ["webhooks"],
  ["publishers"],
  ["messaging"],
  ["inbox-store"],
  ["tenants"],
  ["admin"],
  ["app"],
  ["adapters"],
  ["packaging"],
  ["cli"],
];

/** The package's own entry, index.ts, is above all of them. */
function layerOf(file: string): { readonly name: string; readonly level: number } {
  const name = file.split("/")[0]!.replace(/\.[jt]s$/, "");
  const level = layers.findIndex((names) => names.includes(name));
  return { name, level: level < 0 ? layers.length : level };
}

describe("boundaries of the code", () => {
  it("finds imports at all", () => {
    expect(imports.length).toBeGreaterThan(50);
    expect(imports.some((entry) => entry.from === "pg")).toBe(true);
  });

  it("imports point down the layers, and never across a layer", () => {
    const upwards = imports
      .filter((entry) => isRelative(entry))
      .map((entry) => ({ file: entry.file, from: layerOf(entry.file), to: layerOf(target(entry)) }))
      .filter(({ from, to }) => from.name !== to.name && from.level <= to.level)
      .map(({ file, to }) => `${file} imports ${to.name}`);
    expect(upwards).toEqual([]);
  });

  it("every folder of src has a layer, and every layer a folder", () => {
    const folders = new Set(files.map((name) => name.split(sep)[0]!).filter((name) => !name.endsWith(".ts")));
    expect([...folders].sort()).toEqual(
      layers
        .flat()
        .filter((name) => name !== "errors")
        .sort(),
    );
  });

  it("the architecture page names the layers in this order", () => {
    const page = readFileSync(join(root, "../docs/architecture.md"), "utf8");
    const order = layers.map((names) => names.join(", "));
    expect(page).toContain(order.join(" ← "));
  });

  it("ADD-02 the admin page runs in a browser: its files import each other and nothing else", () => {
    const own = imports.filter(inFolder("admin/page"));
    expect(own.length).toBeGreaterThan(50);
    expect(own.filter((entry) => !target(entry).startsWith("admin/page/"))).toEqual([]);
  });

  it("only client.ts files load a driver", () => {
    const drivers = ["pg", "mssql", "tedious", "@photostructure/sqlite", "node:sqlite", "better-sqlite3"];
    const loading = imports.filter((entry) => drivers.includes(entry.from) && !entry.typeOnly);
    expect(loading.filter((entry) => !entry.file.endsWith("/client.ts"))).toEqual([]);
  });

  it("a dialect does not know the others", () => {
    const across = imports.filter((entry) => {
      const own = /^sql\/(sqlserver|postgres|sqlite)\//.exec(entry.file)?.[1];
      const other = isRelative(entry)
        ? /^sql\/(sqlserver|postgres|sqlite)\//.exec(target(entry))?.[1]
        : undefined;
      return own !== undefined && other !== undefined && own !== other;
    });
    expect(across).toEqual([]);
  });

  it("the core and the store do not know any dialect", () => {
    const known = imports.filter(
      (entry) =>
        !/^sql\/(sqlserver|postgres|sqlite)\//.test(entry.file) &&
        !/^config\/(database|receiving)-openers\.ts$/.test(entry.file) && // which load the one that a URL names
        entry.file !== "operators/operator-dialects.ts" && // which loads that of the queue's database
        !(/^(cli|adapters\/local)\//.test(entry.file) && /^sql\/sqlite\/backup\//.test(target(entry))) && // SQLite only
        entry.file !== "adapters/orm/executor.ts" && // which runs the statements of all three through a library
        isRelative(entry) &&
        /^sql\/(sqlserver|postgres|sqlite)\//.test(target(entry)),
    );
    expect(known).toEqual([]);
  });

  it("only a cloud's adapter and the publishers to its services import its packages", () => {
    const knows = (cloud: string, packages: RegExp) =>
      imports.filter(
        (entry) =>
          packages.test(entry.from) &&
          !entry.file.startsWith(`adapters/${cloud}/`) &&
          entry.file !== "sql/postgres/entra.ts" && // the command line signs in with it, too
          !entry.file.startsWith("publishers/"),
      );
    expect(knows("aws", /^(@aws-sdk\/|@middy\/|aws-lambda$)/)).toEqual([]);
    expect(knows("azure", /^@azure\//)).toEqual([]);
  });

  it("ADD-05 only telemetry knows OpenTelemetry, and nothing but its subpath loads it", () => {
    const users = imports.filter((entry) => entry.from.startsWith("@opentelemetry/"));
    expect(new Set(users.map((entry) => entry.from))).toEqual(new Set(["@opentelemetry/api"]));
    expect(users.filter((entry) => !inFolder("telemetry")(entry))).toEqual([]);
    const loaders = new Set(
      users.filter((entry) => !entry.typeOnly).map(({ file }) => file.replace(/ts$/, "js")),
    );
    const outside = imports.filter(
      (entry) => isRelative(entry) && !inFolder("telemetry")(entry) && loaders.has(target(entry)),
    );
    expect(outside).toEqual([]);
  });

  it("only config reads the environment", () => {
    const readers = files
      .map((name) => name.split(sep).join("/"))
      .filter(
        (name) => !name.startsWith("config/") && /process\.env/.test(readFileSync(join(root, name), "utf8")),
      );
    expect(readers).toEqual([]);
  });

  it("webhook schemes know nothing of the route", () => {
    const outside = imports.filter(
      (entry) =>
        inFolder("webhooks/schemes")(entry) &&
        isRelative(entry) &&
        /^webhooks\/(?!schemes\/)/.test(target(entry)),
    );
    expect(imports.some(inFolder("webhooks/schemes"))).toBe(true);
    expect(outside).toEqual([]);
  });

  it("only config and what reads fields of HTTP requests use zod, the one runtime dependency, and only its small variant", () => {
    const manifest = JSON.parse(readFileSync(join(root, "../package.json"), "utf8")) as {
      dependencies?: object;
    };
    expect(Object.keys(manifest.dependencies ?? {})).toEqual(["zod"]);
    const users = imports.filter((entry) => entry.from.startsWith("zod"));
    expect(
      users.filter(
        (entry) => !/^(config|http|inbox-store\/http|admin|messaging\/diagnostics)\b/.test(entry.file),
      ),
    ).toEqual([]);
    expect(users.filter((entry) => !/^zod\/(mini|v4\/locales\/en\.js)$/.test(entry.from))).toEqual([]);
  });
});
