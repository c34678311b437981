import type { Template, Templates } from "./template.js";

export type DigestAlgorithm = "sha1" | "sha256" | "sha512";
export type SignatureEncoding = "hex" | "base64" | "base64url";

/** A part of a header: all of it, or the entries of a list that start with a prefix. */
export interface HeaderPart {
  readonly header: string;
  /** Of a list's entries. Without one the header is a single entry. */
  readonly separator?: string;
  /** What an entry that counts starts with: `v1=`, `sha256=`. */
  readonly prefix?: string;
}

/** How a secret is written, and what is done with it. */
export interface KeyRule {
  readonly algorithm: DigestAlgorithm | "ed25519";
  /** How the key's bytes are written. `utf8` by default: the text's own bytes. */
  readonly secretEncoding?: "utf8" | "hex" | "base64";
  /** Marks the secrets this rule is for (`whsec_`), and is not part of the key. */
  readonly secretPrefix?: string;
  /** Instead of the signature's own prefix. */
  readonly prefix?: string;
}

/** A signature over what was sent, in a header. */
export interface SignatureRule extends HeaderPart {
  readonly kind: "signature";
  /** What is signed; alternatives are tried in turn. `{body}` by default. */
  readonly signed?: Templates;
  /** `sha256` by default: an HMAC. */
  readonly algorithm?: DigestAlgorithm;
  /** `hex` by default. */
  readonly encoding?: SignatureEncoding;
  readonly secretEncoding?: KeyRule["secretEncoding"];
  /** Where secrets come in several kinds: the first whose prefix fits is taken. Instead of `algorithm` and `secretEncoding`. */
  readonly keys?: readonly KeyRule[];
  /** When it was signed. Deliveries outside of the tolerance are refused, older and newer alike. */
  readonly timestamp?: HeaderPart & { readonly unit?: "s" | "ms" };
  /** The query parameter with the body's SHA-256 in hexadecimal, for a signature over the URL alone. */
  readonly bodyDigestQuery?: string;
}

/** A secret that is sent as it is: for providers that sign nothing. */
export interface TokenRule {
  readonly kind: "token";
  /** `{header:…}` or `{query:…}`. */
  readonly token: Templates;
}

/**
 * A request that asks who is there, and is answered without enqueueing anything. What the body says can be used where the
 * scheme's signature or token has verified it first; everywhere else there are only headers and query.
 */
export interface Handshake {
  readonly method: "GET" | "HEAD" | "POST" | "OPTIONS";
  /**
   * Templates with the text that they must give, or true for any: `{ "{json:type}": "url_verification" }`. It may be empty,
   * but for a POST, which could then be any event.
   */
  readonly when: Readonly<Record<Template, string | true>>;
  /**
   * What must be right before it is answered: the scheme's signature or token (the default), or the
   * source's `verifyToken` at this place.
   */
  readonly verifyToken?: Template;
  /** Nothing must be right: anybody is answered, because the provider sends nothing that could be verified. */
  readonly unsigned?: true;
  readonly answer: {
    readonly text?: Template;
    readonly json?: Readonly<Record<string, Template>>;
    readonly headers?: Readonly<Record<string, Template>>;
    /**
     * What `{hmac}` is made of in the rest of the answer: with the scheme's algorithm and encoding, by the first of the
     * source's secrets.
     */
    readonly hmac?: Template;
  };
}

/** All that is to be known of a provider, as data: it may come from a JSON file. */
export interface WebhookScheme {
  readonly verify: SignatureRule | TokenRule;
  /** The event's id. Where none can be had it is the SHA-256 of source and body. */
  readonly messageId?: Templates;
  /** The source's name by default. */
  readonly topic?: Templates;
  /** Whose event it is, where one source serves many. */
  readonly tenant?: Templates;
  /** Headers kept with the message, beside content type, content encoding and trace context. */
  readonly keepHeaders?: readonly string[];
  /** Fields at the top of a JSON body that change from one delivery of an event to the next: not part of its hash. */
  readonly volatileFields?: readonly string[];
  /** Other content types are refused; any is accepted by default. */
  readonly contentTypes?: readonly string[];
  readonly handshakes?: readonly Handshake[];
  /** What the provider wants to read instead of the outcome as JSON. */
  readonly answer?: { readonly contentType: string; readonly body: string };
}
