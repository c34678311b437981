export { registerFunctions, registerGithubRecovery } from "./functions.js";
export { type KeyVaultTenants, tenantsFromKeyVault } from "./key-vault.js";
export { type MessageFunctionsOptions, registerMessageFunctions } from "./message-functions.js";
export { type AzureQueueOptions, azureHttp, serviceBusHandler, storageQueueHandler } from "./middleware.js";
