export { registerFunctions, registerGithubRecovery } from "./functions.js";
export type { KeyVaultTenants } from "./key-vault.js";
export { tenantsFromKeyVault } from "./key-vault.js";
export type { MessageFunctionsOptions } from "./message-functions.js";
export { registerMessageFunctions } from "./message-functions.js";
