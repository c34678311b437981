/** The admin page. `html` names its script and style sheet `./page.js` and `./page.css`. */
export interface PageFiles {
  readonly html: string;
  readonly js: string;
  readonly css: string;
}

let rendered: Promise<PageFiles> | undefined;

/**
 * In a clone, renders the page from its sources at its first use. The package and the functions' bundles have the texts that
 * `pageModule` makes in place of this file.
 */
export function pageFiles(): Promise<PageFiles> {
  rendered ??= import("./render-page.js").then(({ renderPage }) => renderPage());
  return rendered;
}
