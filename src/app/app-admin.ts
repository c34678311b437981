import type { AdminSettings } from "../admin/admin-options.js";
import type { SecretOrReference } from "./app-sources.js";

/** The diagnostics API of an app. Only types here: the bundle of a function that does not serve it holds no code of it. */
export interface AppAdmin extends AdminSettings {
  /**
   * All tokens that are valid at present, each `name:secret`, or references to where they are kept. A text may hold several,
   * with commas or white space between them. An environment variable may also hold a reference, as JSON.
   */
  readonly tokens: SecretOrReference | readonly SecretOrReference[];
}
