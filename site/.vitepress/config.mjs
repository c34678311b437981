// How VitePress makes the site. scripts/build-docs.ts writes its pages and its sidebar, and says where they are.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitepress";
import { accessibleSearch } from "./accessible-search.mjs";
import { githubSlug } from "./github-slug.mjs";

const pages = process.env.DOCS_PAGES;
const { base, out, sidebar, description, repository } = JSON.parse(
  readFileSync(join(pages, "site.json"), "utf8"),
);

export default defineConfig({
  title: "oncebox",
  description,
  lang: "en",
  base,
  srcDir: pages,
  outDir: out,
  cacheDir: join(pages, ".cache"),
  cleanUrls: false, // a plain file server finds every page
  ignoreDeadLinks: false,
  vite: {
    plugins: [accessibleSearch],
    build: { chunkSizeWarningLimit: 4_000 }, // the index of the search, which is loaded when it is opened
  },
  markdown: {
    anchor: { slugify: githubSlug },
    config: (md) => md.enable("code"), // the README's commands are indented
    theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
  },
  themeConfig: {
    // no label of its own: the button's text names it, with the keys that open it
    search: { provider: "local", options: { translations: { button: { buttonAriaLabel: "" } } } },
    nav: [
      { text: "Getting started", link: "/getting-started" },
      { text: "Contents", link: "/contents" },
      { text: "API reference", link: "/reference/" },
    ],
    sidebar,
    outline: [2, 3],
    socialLinks: [{ icon: "github", link: repository, ariaLabel: "The sources on GitHub" }],
  },
});
