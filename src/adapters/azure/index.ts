export { registerFunctions } from "./register-functions.js";
export { registerGithubRecovery } from "./register-github-recovery.js";
export type { MessageFunctionsOptions } from "./register-message-functions.js";
export { registerMessageFunctions } from "./register-message-functions.js";
export type { KeyVaultTenants } from "./tenants-from-key-vault.js";
export { tenantsFromKeyVault } from "./tenants-from-key-vault.js";
