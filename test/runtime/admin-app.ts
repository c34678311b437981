/** The app that the scenarios of the diagnostics API run, in a process of its own. */
import { defineApp } from "../../src/app/definition.js";

const { SCENARIO_SCHEMA: schema = "" } = process.env;

export default defineApp({
  schema,
  admin: { tokens: { from: "env", name: "ONCEBOX_ADMIN_TOKENS" }, callMs: 3_000 },
});
