/** The anchor of a heading as GitHub makes it, because the documents' links are written for GitHub. */
export const githubSlug = (heading) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replaceAll(" ", "-");
