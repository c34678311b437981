import type { SignOptions, WebhookRouteOptions, WebhookSource } from "../../../src/webhooks/index.js";

/** What a provider sends: one event, or a batch. */
export interface ProviderEvent {
  /** POST by default. */
  readonly method?: "GET" | "HEAD" | "OPTIONS" | "POST";
  readonly headers?: Readonly<Record<string, string>>;
  /** After the `?`. */
  readonly query?: string;
  readonly body: string;
}

export interface StoredEvent {
  /** An id that is not signed is stored with a part of the content's hash: `unsigned("…")`. */
  readonly messageId: string | RegExp;
  readonly topic: string | RegExp;
  readonly tenant?: string;
  /** The payload, where it is not the whole body. */
  readonly payload?: string;
}

export interface PresetAnswer {
  /** 200 by default. */
  readonly status?: number;
  /** The body: as text, or as JSON. */
  readonly text?: string;
  readonly json?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** How a provider signs an event: by its own library, or by the documented algorithm written out. */
export type ProviderSign = (
  event: ProviderEvent,
  sending: { readonly at: Date; readonly url: string; readonly secret: string },
) => Partial<ProviderEvent> | Promise<Partial<ProviderEvent>>;

/** A request with its answer. The request is sent as it is, unless `signed`. */
export interface PresetHandshake extends ProviderEvent {
  readonly title: string;
  readonly signed?: true;
  readonly answer: PresetAnswer;
}

/** A request that the provider has published, with its signature. */
export interface PublishedExample extends ProviderEvent {
  readonly title: string;
  readonly secret: string;
  readonly at?: Date;
  readonly stored?: Partial<StoredEvent>;
}

/** Everything that `describePreset` needs to know of a provider. */
export interface PresetSample {
  /** Verifies deliveries. */
  readonly secret: string;
  /** Signs deliveries, where that is another key than the one that verifies them. */
  readonly signingSecret?: string;
  /** A secret of the same form, which belongs to somebody else. */
  readonly otherSecret: string;
  /** Other fields of the source, such as `verifyToken`. */
  readonly source?: Partial<WebhookSource>;
  /** Other options of the route, such as `fetchText`. */
  readonly route?: Partial<WebhookRouteOptions>;
  readonly sign: ProviderSign;
  readonly event: ProviderEvent;
  /** One for each event of the batch. */
  readonly stored: readonly StoredEvent[];
  /** The same event as the provider sends it again, where it differs. */
  readonly retry?: ProviderEvent;
  /** For notifications without an id: each delivery is a new message. */
  readonly neverDuplicate?: true;
  /** Another event, which must become another message. */
  readonly otherEvent: ProviderEvent;
  /** Batches that hold events of `event` beside others, and all that is stored after `event` and them. */
  readonly cutAgain?: { readonly batches: readonly ProviderEvent[]; readonly stored: readonly StoredEvent[] };
  /** A change that must be noticed. By default a space or a field is added to the body. "unnoticed" where only a token or a part is verified. */
  readonly tamper?: "unnoticed" | ((sent: ProviderEvent) => ProviderEvent);
  readonly handshakes?: readonly PresetHandshake[];
  readonly examples?: readonly PublishedExample[];
  /** The answer to an accepted delivery, where it is not our JSON. */
  readonly answer?: PresetAnswer;
  /** Names what `signWebhook` needs besides the body. False where it cannot sign. */
  readonly ours?: Partial<SignOptions> | false;
}

/** An id that the signature does not cover. */
export const unsigned = (id: string): RegExp =>
  new RegExp(`^${id.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}~[0-9a-f]{16}$`);
