import type { Logger } from "../base/logger.js";
import type { InboxServiceSettings } from "../service/http/service-options.js";
import type { LeasingInboxStore } from "../service/inbox-store.js";
import type { SecretOrReference } from "./app-sources.js";

/** The service of an app. Only types here: the bundle of a function that does not serve it holds no code of it. */
export interface AppService extends InboxServiceSettings {
  /**
   * All bearer tokens that are valid at present, or references to where they are kept. A text may hold several, with commas or
   * white space between them. An environment variable may also hold a reference, as JSON.
   */
  readonly tokens?: SecretOrReference | readonly SecretOrReference[];
  /** Opens another store than the app's own database: Redis, for example. */
  readonly store?: (host: { readonly logger: Logger }) => LeasingInboxStore | Promise<LeasingInboxStore>;
  /** How long processed keys are kept in the app's database: 7 to 30 days. By default as long as Done messages, and at most 30 days. */
  readonly retentionMs?: number;
}
