/** The app that the scenarios of the inbox service run, in a process of its own. */
import { defineApp } from "../../src/app/definition.js";

const { SCENARIO_SCHEMA: schema = "" } = process.env;

export default defineApp({
  schema,
  service: { tokens: { from: "env", name: "INBOX_SERVICE_TOKENS" }, callMs: 3_000 },
});
