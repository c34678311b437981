import { createRequire } from "node:module";
import { InvalidOperationError } from "../errors.js";

/**
 * Refuses to start without an optional package, so that no message has to fail first. It is not loaded: that takes time, and not
 * every run needs it. A bundle has the package in it, or its runtime has it; there the first use shows.
 */
export function requirePackage(name: string, user: string, missing = missingPackage): void {
  try {
    const filename = import.meta.filename ?? "";
    if (/[\\/]require-package\.[jt]s$/.test(filename)) createRequire(filename).resolve(name);
  } catch (error) {
    // Other errors say that the package is there and cannot be found by `require`, or that this is a bundle.
    if ((error as { code?: unknown }).code === "MODULE_NOT_FOUND") throw missing(name, user, error);
  }
}

const missingPackage = (name: string, user: string, cause: unknown): InvalidOperationError =>
  new InvalidOperationError(`${user} needs the package "${name}". Run: npm install ${name}`, { cause });

/** Of `import`, and of `require`. */
const notFoundCodes: readonly unknown[] = ["ERR_MODULE_NOT_FOUND", "MODULE_NOT_FOUND"];

/** Turns "cannot find module" into an error that says which package to install. */
export async function loadPackage<T>(name: string, load: () => Promise<T>, user: string): Promise<T> {
  try {
    return await load();
  } catch (error) {
    if (!notFoundCodes.includes((error as { code?: unknown }).code)) throw error;
    throw missingPackage(name, user, error);
  }
}

/** For `import("…").catch(rethrow)`. Bundlers then leave a package that is not installed to the run time. */
export const rethrow = (error: unknown): never => {
  throw error;
};

/** The version of this package. Not read from package.json: a bundle has none. A test compares them. */
export const packageVersion = "0.1.0";
