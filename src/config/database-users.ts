import * as z from "zod/mini";
import { filled, parseJson } from "./environment.js";
import { validated } from "./tenant-settings.js";

/** The roles that infra/sql/users-*.sql creates. */
export const databaseRoles = [
  "oncebox_receivers",
  "oncebox_functions",
  "oncebox_service",
  "oncebox_producers",
  "oncebox_messaging",
  "oncebox_operators",
] as const;

const guid = z.string().check(z.regex(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i, "must be a GUID"));
const users = z.array(
  z.strictObject({
    /** Of the identity, and of the database user. It is part of statements, so it has only harmless characters. */
    name: z
      .string()
      .check(
        z.regex(/^[\w.-]{1,63}$/, "must have 1 to 63 letters, digits, hyphens, full stops and underscores"),
      ),
    role: z.enum(databaseRoles),
    /** SQL Server identifies an application by it. */
    clientId: guid,
    /** PostgreSQL on Azure identifies an application by it. */
    objectId: guid,
  }),
);

export type DatabaseUser = z.infer<typeof users>[number];

/** What the migration function needs to know. Names every problem without its value. */
export function readDatabaseUsers(env: NodeJS.ProcessEnv = process.env): {
  readonly users: readonly DatabaseUser[];
  readonly catalogueUrl: string | undefined;
} {
  const name = "ONCEBOX_DATABASE_USERS";
  const given = parseJson(filled(env, name) ?? "[]", name);
  return { users: validated(users, given, name), catalogueUrl: filled(env, "ONCEBOX_CATALOGUE_URL") };
}
