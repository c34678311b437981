import { defined } from "../base/defined.js";
import type { MigrateOptions } from "../sql/migrate.js";
import type { AppDefinition } from "./app-definition.js";

export const migrateOptionsOf = ({ schema, inbox, outbox }: AppDefinition): MigrateOptions =>
  defined({ schema, inbox: inbox?.table, outbox: outbox?.table });
