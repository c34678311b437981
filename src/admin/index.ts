export type { AdminOptions, AdminSettings } from "./admin-options.js";
export { adminDefaults } from "./admin-options.js";
export type { Admin } from "./create-admin.js";
export { createAdmin } from "./create-admin.js";
export type { AdminStores, AdminTenants } from "./queue-stores.js";
