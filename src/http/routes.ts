import { decoded } from "./plain.js";

/** Where a route is, as data. Each API adds what its routes need: fields, a token, a handler. */
export interface RouteData {
  /** A route for GET also gets HEAD. */
  readonly method: "GET" | "POST";
  /** `{name}` stands for one part of the path, and at its end for the rest, which is empty only for `{name*}`. */
  readonly path: string;
}

export type RouteMatch<Route> =
  | { readonly kind: "found"; readonly route: Route; readonly names: PathNames }
  | { readonly kind: "wrong method"; readonly methods: readonly string[] }
  | { readonly kind: "not found" };

/** The texts that the names of a path stand for. One that is not valid percent-encoding is empty. */
export type PathNames = Readonly<Record<string, string>>;

/** Finds the first route of a method and a path. `undefined` is a path of nothing. */
export type FindRoute<Route> = (method: string, path: string | undefined) => RouteMatch<Route>;

export function routeTable<Route extends RouteData>(routes: readonly Route[]): FindRoute<Route> {
  const table = routes.map((route) => ({ route, pattern: patternOf(route.path), methods: methodsOf(route) }));
  return (method, path) => {
    const methods = new Set<string>();
    for (const entry of path === undefined ? [] : table) {
      const match = entry.pattern.exec(path!);
      if (match === null) continue;
      if (entry.methods.includes(method))
        return { kind: "found", route: entry.route, names: namesIn(match.groups) };
      for (const one of entry.methods) methods.add(one);
    }
    return methods.size === 0 ? { kind: "not found" } : { kind: "wrong method", methods: [...methods] };
  };
}

const methodsOf = ({ method }: RouteData): readonly string[] =>
  method === "GET" ? ["GET", "HEAD"] : [method];

function patternOf(path: string): RegExp {
  const literal = path.replace(/[.?+()|[\]\\^$]/g, "\\$&");
  const withRest = literal.replace(/\{(\w+)\*\}$/, "(?<$1>.*)").replace(/\{(\w+)\}$/, "(?<$1>.+)");
  return new RegExp(`^${withRest.replace(/\{(\w+)\}/g, "(?<$1>[^/]+)")}$`, "s");
}

const namesIn = (groups: Readonly<Record<string, string>> = {}): PathNames =>
  Object.fromEntries(Object.entries(groups).map(([name, text]) => [name, decoded(text) ?? ""]));

/** The path from the first `base` on, without the prefix that a gateway adds. Undefined where there is no base. */
export function pathFrom(path: string, base: string): string | undefined {
  const at = path.indexOf(base);
  return at < 0 ? undefined : path.slice(at);
}
