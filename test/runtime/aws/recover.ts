import { recoverGithubFunction } from "../../../src/adapters/aws/index.js";

export const handler = recoverGithubFunction({
  hooks: [{ repository: "acme/shop", hookId: 7 }],
  token: { from: "env", name: "GITHUB_TOKEN" },
});
