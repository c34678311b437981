import type { ReceiveOutcome } from "../../inbox/receiver.js";
import type { Template, Templates } from "./template.js";
import type { VerifyRule } from "./verify-rules.js";

export type * from "./verify-rules.js";

/** JSON in which each string is a template, and all other values are as they are. */
export type JsonTemplate =
  | Template
  | number
  | boolean
  | null
  | readonly JsonTemplate[]
  | { readonly [name: string]: JsonTemplate };

/**
 * A request by which the provider verifies the endpoint. It is answered and nothing is stored. It must be recognised
 * before the body is read where nothing else proves who sends it. `when` and `answer` may use the body of a POST that the
 * scheme's signature or token proves, because the route has verified it first; elsewhere they may use headers and query.
 * With `{item:…}` in `when`, it is one event of a split delivery, and the others are stored.
 */
export interface Handshake {
  readonly method: "GET" | "HEAD" | "POST" | "OPTIONS";
  /**
   * Templates with the text that each must give, or true for any text: `{ "{json:type}": "url_verification" }`. It may be
   * empty except for a POST, which could then be any event.
   */
  readonly when: Readonly<Record<Template, string | true>>;
  /**
   * Where the request has the source's `verifyToken`, which must match before it is answered. Without this the scheme's
   * own signature or token must be right.
   */
  readonly verifyToken?: Template;
  /**
   * Stores the request as a message before it is answered, because it tells what the app must know: Notion's token. Only
   * for a POST with a `verifyToken`, whose body `when` and `answer` may then use.
   */
  readonly store?: true;
  /** Answers every caller, because the provider sends nothing that could be verified. */
  readonly unsigned?: true;
  readonly answer: {
    /** 200 by default. */
    readonly status?: number;
    readonly text?: Template;
    readonly json?: JsonTemplate;
    readonly headers?: Readonly<Record<string, Template>>;
    /**
     * The content of which `{hmac}` in the rest of the answer is the HMAC, with the scheme's algorithm and encoding and
     * the first of the source's secrets.
     */
    readonly hmac?: Template;
    /**
     * An address of the verified delivery that is called before the answer, by GET: `{json:SubscribeURL}`. Only with
     * `verify.certificate`, and only on its hosts.
     */
    readonly confirm?: Template;
  };
}

/** A fixed answer. Without `json` and `body` it has no body. */
export interface Answer {
  readonly status?: number;
  readonly contentType?: string;
  readonly body?: string;
  readonly json?: unknown;
}

/** Why a request was refused, with nothing stored. */
export type RefusalName =
  | "bad request"
  | "unauthorized"
  | "not found"
  | "method not allowed"
  | "too slow"
  | "too large"
  | "unsupported media type"
  | "unavailable";

/** Everything about a provider, as data. It may come from a JSON file. */
export interface WebhookScheme {
  readonly verify: VerifyRule;
  /**
   * The list in the body whose items are events: `{json:entry}`; `{json:}` where the body itself is the list;
   * `{json:entry.*.changes}` for the lists of all entries; `{form:mandrill_events}` for JSON in a form's field. Each item
   * becomes a message of its own. A body without that list is one message.
   */
  readonly split?: Template;
  /**
   * The event's id. Without one it is the SHA-256 of source and content. `{received}` is new for each delivery, for
   * notifications that all look alike: they are never deduplicated.
   */
  readonly messageId?: Templates;
  /** The source's name by default. */
  readonly topic?: Templates;
  /** The tenant of the event, where one source serves several. */
  readonly tenant?: Templates;
  /** Headers kept with the message, beside content type, content encoding and trace context. */
  readonly keepHeaders?: readonly string[];
  /**
   * Fields of a JSON body that differ between two deliveries of one event, as paths: `attempt`, `data.attempt`,
   * `events.*.attempt` for the items of a list. In a split delivery the paths start at the item. The hash leaves them out,
   * and so does an id that is made of it.
   */
  readonly volatileFields?: readonly string[];
  /** Other content types are refused. Every content type is accepted by default. */
  readonly contentTypes?: readonly string[];
  /** The methods of deliveries: POST by default. The query of a GET is read as a form is. */
  readonly methods?: readonly ("POST" | "GET")[];
  readonly handshakes?: readonly Handshake[];
  /** The answer that the provider expects instead of the outcome as JSON, and where it depends on the outcome, one for each. */
  readonly answer?: Answer & { readonly outcomes?: Readonly<Partial<Record<ReceiveOutcome, Answer>>> };
  /** The answers to refused requests, where the provider expects other ones. */
  readonly refusals?: Readonly<Partial<Record<RefusalName, Answer>>>;
  /** The time of a request, where the provider gives up earlier than the route's `receiveMs`. */
  readonly receiveMs?: number;
}
