export { type DrizzleTransaction, fromDrizzle } from "./from-drizzle.js";
export { fromKnex, type KnexTransaction } from "./from-knex.js";
export { fromKysely, type KyselyTransaction } from "./from-kysely.js";
export { fromPrisma, type PrismaTransaction } from "./from-prisma.js";
export { fromTypeOrm, type TypeOrmManager } from "./from-typeorm.js";
export { type DrizzleProxy, type KyselySettings, toDrizzle, toKysely } from "./on-native.js";
