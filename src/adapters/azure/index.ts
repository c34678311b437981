export { registerFunctions } from "./register-functions.js";
export type { KeyVaultTenants } from "./tenants-from-key-vault.js";
export { tenantsFromKeyVault } from "./tenants-from-key-vault.js";
