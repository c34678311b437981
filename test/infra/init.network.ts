import { describeInit } from "./init-suite.js";
import { npm } from "./packed.js";

describeInit("an app of the user's own, by oncebox init and npm install", async (folder, { tarball }) => {
  await npm(["install", tarball], folder);
  return (script) => npm(["run", script], folder);
});
