import { defineApp } from "../../src/app/app-definition.js";

/** One source, nothing else. */
export default defineApp({
  ...(process.env.BENCH_SCHEMA === undefined ? {} : { schema: process.env.BENCH_SCHEMA }),
  sources: { stripe: { scheme: "stripe", secrets: { from: "env", name: "BENCH_SECRET" } } },
});
