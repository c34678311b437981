import { defineConfig, mergeConfig } from "vitest/config";
import config from "./vitest.config.js";

/** Tests that install packages from the registry, and so are no part of `npm test`: `npm run test:init`. */
const { test, ...rest } = config;
export default mergeConfig(
  rest,
  defineConfig({
    test: { ...test, include: ["test/**/*.network.ts"], testTimeout: 300_000, hookTimeout: 300_000 },
  }),
);
