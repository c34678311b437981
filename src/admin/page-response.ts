import { pageFiles } from "./page/page-files.js";
import { adminResponses, type Ending } from "./responses.js";

/** The page loads its own files and nothing else, and no other page may frame it. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const headersOf = (type: string) => ({
  "content-type": `${type}; charset=utf-8`,
  "content-security-policy": contentSecurityPolicy,
  "x-frame-options": "DENY", // for browsers that do not know frame-ancestors
  "referrer-policy": "no-referrer",
});

/**
 * The page and its two files, which hold no data. Undefined for any other path. The page is served with and without a slash
 * at its end, because a gateway may take only one of them.
 */
export function pageResponse(path: string, behindBase: string): Ending | undefined {
  switch (behindBase) {
    case "":
      return adminResponses.file(
        pageFiles.html(path.endsWith("/") ? "" : "_oncebox/"),
        headersOf("text/html"),
      );
    case "page.js":
      return adminResponses.file(pageFiles.js, headersOf("text/javascript"));
    case "page.css":
      return adminResponses.file(pageFiles.css, headersOf("text/css"));
    default:
      return undefined;
  }
}
