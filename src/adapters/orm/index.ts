export { fromDrizzle } from "./from-drizzle.js";
export { fromKnex } from "./from-knex.js";
export { fromKysely } from "./from-kysely.js";
export { fromPrisma } from "./from-prisma.js";
export { fromTypeOrm } from "./from-typeorm.js";
export { type DrizzleProxy, type KyselySettings, toDrizzle, toKysely } from "./on-native.js";
