/** What a path names, without the prefix that a gateway adds. */
export type FoundPath =
  | { readonly kind: "document" }
  /** The name of an operation, or a key, still percent-encoded. */
  | { readonly kind: "inbox"; readonly name: string };

const inbox = "/v1/inbox/";
const document = "/v1/openapi.json";

/** The rest of the path is one name, also with slashes in it: some gateways decode them. */
export function findPath(path: string): FoundPath | undefined {
  const at = path.indexOf(inbox);
  if (at >= 0) return { kind: "inbox", name: path.slice(at + inbox.length) };
  return path.endsWith(document) ? { kind: "document" } : undefined;
}
