import type { Template, Templates } from "./template.js";

export type DigestAlgorithm = "sha1" | "sha256" | "sha512";
export type SignatureEncoding = "hex" | "base64" | "base64url";

/** A part of a header: the whole value, or the entries of a list that start with a prefix. */
export interface HeaderPart {
  readonly header: string;
  /** Separates the entries of a list. Without one the header is a single entry. */
  readonly separator?: string;
  /** Only entries that start with it are used: `v1=`, `sha256=`. */
  readonly prefix?: string;
}

/** How a secret is encoded, and the algorithm it is for. */
export interface KeyRule {
  readonly algorithm: DigestAlgorithm | "ed25519";
  /** The encoding of the key's bytes. `utf8` by default: the bytes of the text. */
  readonly secretEncoding?: "utf8" | "hex" | "base64";
  /** The prefix of secrets that this rule is for (`whsec_`). It is not part of the key. */
  readonly secretPrefix?: string;
  /** Replaces the signature's prefix. */
  readonly prefix?: string;
}

/** A signature of the request, in a header. */
export interface SignatureRule extends HeaderPart {
  readonly kind: "signature";
  /** The signed content. Alternatives are tried one after the other. `{body}` by default. */
  readonly signed?: Templates;
  /** `sha256` by default: an HMAC. */
  readonly algorithm?: DigestAlgorithm;
  /** `hex` by default. */
  readonly encoding?: SignatureEncoding;
  readonly secretEncoding?: KeyRule["secretEncoding"];
  /** For providers with several kinds of secrets: the first rule whose prefix fits is used. Replaces `algorithm` and `secretEncoding`. */
  readonly keys?: readonly KeyRule[];
  /** The time of the signature. Deliveries outside of the tolerance are refused, older and newer alike. */
  readonly timestamp?: HeaderPart & { readonly unit?: "s" | "ms" };
  /** The query parameter with the body's SHA-256 in hexadecimal, for a signature over the URL alone. */
  readonly bodyDigestQuery?: string;
}

/** A secret that is sent with the request, for providers that do not sign. */
export interface TokenRule {
  readonly kind: "token";
  /** `{header:…}` or `{query:…}`. */
  readonly token: Templates;
}

/**
 * A request by which a provider verifies the endpoint. It is answered, and nothing is enqueued. Templates may use the body
 * only where the scheme's signature or token has verified it first; elsewhere they may use headers and query.
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
  /** Answers every caller, because the provider sends nothing that could be verified. */
  readonly unsigned?: true;
  readonly answer: {
    readonly text?: Template;
    readonly json?: Readonly<Record<string, Template>>;
    readonly headers?: Readonly<Record<string, Template>>;
    /**
     * The content of which `{hmac}` in the rest of the answer is the HMAC, with the scheme's algorithm and encoding and
     * the first of the source's secrets.
     */
    readonly hmac?: Template;
  };
}

/** Everything about a provider, as data. It may come from a JSON file. */
export interface WebhookScheme {
  readonly verify: SignatureRule | TokenRule;
  /** The event's id. Without one it is the SHA-256 of source and body. */
  readonly messageId?: Templates;
  /** The source's name by default. */
  readonly topic?: Templates;
  /** The tenant of the event, where one source serves several. */
  readonly tenant?: Templates;
  /** Headers kept with the message, beside content type, content encoding and trace context. */
  readonly keepHeaders?: readonly string[];
  /** Top-level fields of a JSON body that differ between two deliveries of one event. The hash leaves them out. */
  readonly volatileFields?: readonly string[];
  /** Other content types are refused. Every content type is accepted by default. */
  readonly contentTypes?: readonly string[];
  readonly handshakes?: readonly Handshake[];
  /** The answer that the provider expects instead of the outcome as JSON. */
  readonly answer?: { readonly contentType: string; readonly body: string };
}
