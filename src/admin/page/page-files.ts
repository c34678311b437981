/** The files of the admin page. `folder` is where its script and style sheet are, relative to the page. */
export const pageFiles = {
  html: (folder: string): string =>
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>oncebox</title><link rel="stylesheet" href="${folder}page.css"></head><body><script type="module" src="${folder}page.js"></script></body></html>`,
  js: "",
  css: "",
} as const;
