export type { Admin, AdminOptions, AdminSettings, AdminStores, AdminTenants } from "./create-admin.js";
export { adminDefaults, createAdmin } from "./create-admin.js";
