import { missingPackage } from "./require-package.js";

/** Turns "cannot find module" into an error that says which package to install. */
export async function loadPackage<T>(
  name: string,
  load: () => Promise<T>,
  user = "This publisher",
): Promise<T> {
  try {
    return await load();
  } catch (error) {
    if ((error as { code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw missingPackage(name, user, error);
  }
}
