import type { CheckedScheme } from "./read-scheme.js";
import type { ParsedTemplate, Placeholder } from "./template.js";

/**
 * Whether the proof of a delivery covers all values of a template. A token proves all or nothing, and so does a JSON web
 * token without a hash of the body.
 */
export function coveredByProof(
  { scheme, proof }: Pick<CheckedScheme, "scheme" | "proof">,
  template: ParsedTemplate,
): boolean {
  const { verify } = scheme;
  if (verify.kind === "token" || (verify.kind === "jwt" && verify.bodyHash === undefined)) return true;
  const hasBody = verify.kind === "jwt";
  const covers = (placeholder: Placeholder, name?: string) =>
    verify.kind === "signature" &&
    proof.every((parts) =>
      parts.some((part) => part.placeholder === placeholder && (name === undefined || part.text === name)),
    );
  // a checksum covers nothing: a body with the same one is easily made
  const coversBody = hasBody || covers("body") || covers("sortedForm");
  return template.every(({ placeholder, text }) => {
    switch (placeholder) {
      case "header":
        return covers("header", text);
      case "query":
        return covers("query", text) || covers("url");
      case "json":
      case "form":
      case "item":
        return coversBody || covers(placeholder, text);
      default: // literal text, or a value that does not come from the request
        return true;
    }
  });
}
