export type { GithubHook } from "./github-hook.js";
export type { GithubRecovery } from "./recover-github.js";
export { recoverGithub } from "./recover-github.js";
export type { Credential, RecoverGithubOptions } from "./recover-github-options.js";
