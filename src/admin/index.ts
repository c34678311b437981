export { type AdminSettings, adminDefaults } from "../http/admin-access.js";
export {
  type Admin,
  type AdminOptions,
  type AdminStores,
  type AdminTenants,
  createAdmin,
} from "./create-admin.js";
