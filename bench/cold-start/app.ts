import { defineApp } from "../../src/app/app-definition.js";
import { defined } from "../../src/base/defined.js";

/** An app with one source and no handlers. */
export default defineApp({
  ...defined({ schema: process.env.BENCH_SCHEMA }),
  sources: { stripe: { scheme: "stripe", secrets: { from: "env", name: "BENCH_SECRET" } } },
});
