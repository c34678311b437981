export type { Credential, GithubHook, GithubRecovery, RecoverGithubOptions } from "./recover-github.js";
export { recoverGithub } from "./recover-github.js";
