/** What the theme tells screen readers of its opened search, and what is so. */
const corrections = [
  // a dialog, and no button: nobody may put fields and links into a button
  [
    /role="button"\s+:aria-owns="[^"]*"\s+aria-expanded="true"\s+aria-haspopup="listbox"/,
    'role="dialog" aria-modal="true"',
  ],
  // the link is the option, and no option has a link in it
  [
    /(:id="'localsearch-item-' \+ index"\s+:aria-selected="[^"]*")\s+role="option"\s+>\s+<a\b/,
    'role="none"><a role="option" $1',
  ],
  // what a result shows is its name
  [/:aria-label="\[\.\.\.p\.titles, p\.title\][^"]*"/, ""],
  [/<kbd :aria-label/g, '<kbd role="img" :aria-label'],
];

/** A plugin of Vite that corrects the search box of VitePress. */
export const accessibleSearch = {
  name: "accessible-search",
  enforce: "pre",
  transform(code, id) {
    if (!id.endsWith("/VPLocalSearchBox.vue")) return undefined;
    return corrections.reduce((text, [wrong, right]) => {
      if (text.search(wrong) < 0) this.error(`The search box of VitePress no longer has ${wrong}.`);
      return text.replace(wrong, right);
    }, code);
  },
};
