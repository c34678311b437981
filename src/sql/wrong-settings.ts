import type { Database } from "./dialect.js";
import type { WrongSetting } from "./inspection.js";

/** The settings of the database that oncebox does not work with, or not well. */
export async function wrongSettings({ dialect, driver }: Database): Promise<readonly WrongSetting[]> {
  const { settings, wrongSettings: wrong } = dialect.inspection;
  if (settings === undefined) return [];
  const [row] = await driver.query(settings, {});
  return row === undefined ? [] : wrong(row);
}
