import { missingPackage } from "./require-package.js";

/** Of `import`, and of `require`. */
const notFound: readonly unknown[] = ["ERR_MODULE_NOT_FOUND", "MODULE_NOT_FOUND"];

/** Turns "cannot find module" into an error that says which package to install. */
export async function loadPackage<T>(
  name: string,
  load: () => Promise<T>,
  user = "This publisher",
): Promise<T> {
  try {
    return await load();
  } catch (error) {
    if (!notFound.includes((error as { code?: unknown }).code)) throw error;
    throw missingPackage(name, user, error);
  }
}

/** For `import("…").catch(rethrow)`. Bundlers then leave a package that is not installed to the run time. */
export const rethrow = (error: unknown): never => {
  throw error;
};
