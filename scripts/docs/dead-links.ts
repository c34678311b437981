import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";

/**
 * What is wrong with the links, pictures, scripts and styles of a built site: a file or an anchor that is not there, an
 * address outside of the base, and anything that a page would load from another server.
 */
export function problemsOfSite(folder: string, base: string): readonly string[] {
  const pages = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => name.replaceAll("\\", "/"))
    .filter((name) => name.endsWith(".html"));
  const texts = new Map(pages.map((page) => [page, readFileSync(join(folder, page), "utf8")]));
  const anchors = new Map(pages.map((page) => [page, anchorsIn(texts.get(page)!)]));

  const problemOf = (page: string, { tag, to }: Reference): string | undefined => {
    if (/^(data:|mailto:)/.test(to)) return undefined;
    if (/^([a-z]+:)?\/\//.test(to))
      return tag === "a" ? undefined : `${page}: <${tag}> loads ${to} from another server`;
    const { pathname, hash } = new URL(to, `http://site${base}${page}`);
    if (!pathname.startsWith(base)) return `${page}: ${to} is outside of ${base}`;
    const path = decodeURIComponent(pathname.slice(base.length));
    const file = path === "" || path.endsWith("/") ? posix.join(path, "index.html") : path;
    if (!existsSync(join(folder, file))) return `${page}: ${to} does not exist`;
    const known = anchors.get(file);
    if (hash === "" || known === undefined || known.has(decodeURIComponent(hash.slice(1)))) return undefined;
    return `${page}: ${to} has no such heading`;
  };

  return pages.flatMap((page) =>
    referencesIn(texts.get(page)!).flatMap((reference) => problemOf(page, reference) ?? []),
  );
}

interface Reference {
  readonly tag: string;
  readonly to: string;
}

const referencesIn = (html: string): readonly Reference[] =>
  [...html.matchAll(/<(\w+)\b[^>]*?\s(?:href|src)="([^"]*)"/g)].map(([, tag, to]) => ({
    tag: tag!,
    to: to!.replaceAll("&amp;", "&"),
  }));

const anchorsIn = (html: string): ReadonlySet<string> =>
  new Set([...html.matchAll(/\sid="([^"]*)"/g)].map(([, id]) => id!.replaceAll("&amp;", "&")));
