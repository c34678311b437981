import { defineApp } from "../../src/app/definition.js";
import { omitUndefined } from "../../src/base/defined.js";

/** An app with one source and no handlers. */
export default defineApp({
  ...omitUndefined({ schema: process.env.BENCH_SCHEMA }),
  sources: { stripe: { scheme: "stripe", secrets: { from: "env", name: "BENCH_SECRET" } } },
});
