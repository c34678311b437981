import { describeInit } from "./init-suite.js";
import { npm } from "./packed.js";

describeInit("a new app, created by oncebox init and npm install", async (folder, { tarball }) => {
  await npm(["install", tarball], folder);
  return (script) => npm(["run", script], folder);
});
