export {
  type Admin,
  type AdminOptions,
  type AdminSettings,
  type AdminStores,
  type AdminTenants,
  adminDefaults,
  createAdmin,
} from "./create-admin.js";
