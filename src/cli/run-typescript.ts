import { createRequire, register } from "node:module";

let isRegistered = false;

/**
 * Lets this process import TypeScript, as esbuild compiles it. Node does so by itself from 22.18 on, but does not find
 * `./file.ts` for an import of `./file.js`. In a clone of the repository tsx does all of it.
 */
export function runTypeScript(file: string): void {
  if (isRegistered || !/\.m?ts$/.test(file) || !import.meta.url.endsWith(".js") || !hasEsbuild()) return;
  register("./typescript-hooks.js", import.meta.url);
  isRegistered = true;
}

function hasEsbuild(): boolean {
  try {
    createRequire(import.meta.url).resolve("esbuild");
    return true;
  } catch {
    return false;
  }
}
