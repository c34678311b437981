/** The addresses that the provider may have called, if a proxy has changed the address on the way. */
export function urlChanges(url: string, headers: Headers): readonly string[] {
  const { protocol, host, pathname, search } = new URL(url);
  const first = (name: string) => headers.get(name)?.split(",", 1)[0]?.trim() || undefined;
  const forwarded = headers.get("forwarded") ?? "";
  const inForwarded = (name: string) => new RegExp(`${name}="?([^;,"\\s]+)`, "i").exec(forwarded)?.[1];
  const protocols = [
    first("x-forwarded-proto"),
    inForwarded("proto"),
    protocol.slice(0, -1),
    "https",
    "http",
  ];
  const hosts = [
    first("x-forwarded-host"),
    first("x-original-host"),
    inForwarded("host"),
    headers.get("host") ?? undefined,
    host,
    host.replace(/:\d+$/, ""),
  ];
  const prefix = first("x-forwarded-prefix");
  const paths = [
    first("x-original-url"),
    first("x-rewrite-url"),
    first("x-forwarded-uri"),
    prefix && prefix.replace(/\/$/, "") + pathname + search,
    pathname + search,
    pathname,
    pathname.replace(/\/$/, "") + search,
    `${pathname.replace(/\/$/, "")}/${search}`,
    decodedPath(pathname + search),
  ];
  const all = known(protocols).flatMap((scheme) =>
    known(hosts).flatMap((name) => known(paths).map((path) => `${scheme}://${name}${path}`)),
  );
  return [...new Set(all)].filter((one) => URL.canParse(one) && one !== url);
}

const known = (texts: readonly (string | undefined)[]): readonly string[] => [
  ...new Set(texts.filter((text) => text !== undefined)),
];

function decodedPath(path: string): string | undefined {
  try {
    return decodeURI(path);
  } catch {
    return undefined;
  }
}

/** The setting with which the route verifies against this address. Undefined where the path is another one. */
export function publicUrlFor(called: string, arrived: string): string | undefined {
  const path = /\/webhooks\/.*$/.exec(new URL(arrived).pathname)?.[0] ?? "";
  const { origin, pathname } = new URL(called);
  return path !== "" && pathname.endsWith(path) ? origin + pathname.slice(0, -path.length) : undefined;
}
