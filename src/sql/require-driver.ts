import { requirePackage } from "../base/require-package.js";
import { DriverMissingError } from "../errors.js";

/** Refuses to open a database without its driver, so that an app learns of it when it starts. The first query loads the driver. */
export const requireDriver = (driver: string, database: string): void =>
  requirePackage(driver, database, (...missing) => new DriverMissingError(...missing));
