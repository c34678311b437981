import { registerGithubRecovery } from "../../../../src/adapters/azure/index.js";

registerGithubRecovery({
  hooks: [{ repository: "acme/shop", hookId: 7 }],
  token: { from: "env", name: "RECOVERY_TEST_TOKEN" },
  apiUrl: process.env.RECOVERY_TEST_URL!,
  pauseMs: 0,
});
