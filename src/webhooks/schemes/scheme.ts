import type { ReceiveOutcome } from "../../inbox/receiver.js";
import type { Template, Templates } from "./template.js";

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
   * Stores the request as a message before it is answered, because the app needs what it says: Notion's token. Only
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

/** The kinds of refused requests, with nothing stored, and their statuses. */
export const refusalStatuses = {
  "bad request": 400,
  unauthorized: 401,
  "not found": 404,
  "method not allowed": 405,
  "too slow": 408,
  "too large": 413,
  "unsupported media type": 415,
  unavailable: 503,
} as const;

export type RefusalName = keyof typeof refusalStatuses;

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
  /**
   * The type of the event. The topic is the source's name and the type, `stripe.invoice.paid`, and the name alone where an
   * event has no type.
   */
  readonly topic?: Templates;
  /**
   * What the event is about, `{json:data.object.customer}`: messages with the same value are handled one at a time, in the
   * order of their arrival. An event without the value is handled beside the others. It must be signed.
   */
  readonly partitionKey?: Templates;
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

export type DigestAlgorithm = "sha1" | "sha256" | "sha512";
/** The provider signs with its private key; the source's secret is the public key. */
export type PublicKeyAlgorithm = "ed25519" | "ecdsa-sha256" | "rsa-sha256" | "rsa-sha1";
export type SignatureAlgorithm = DigestAlgorithm | PublicKeyAlgorithm;
export type SignatureEncoding = "hex" | "base64" | "base64url";

/** A part of a header: the whole value, or the entries of a list that start with a prefix. */
export interface HeaderPart {
  /** A name, or several with `|` between them: the first that the request has is used. */
  readonly header: string;
  /** Separates the entries of a list. Without one the header is a single entry. */
  readonly separator?: string;
  /** Only entries that start with it are used: `v1=`, `sha256=`. */
  readonly prefix?: string;
}

/** How a secret is encoded, and the algorithm it is for. */
export interface KeyRule {
  readonly algorithm: SignatureAlgorithm;
  /**
   * The encoding of the key's bytes. `utf8` by default: the bytes of the text. A public key for ECDSA or RSA is PEM, or
   * its DER bytes in base64, without a word about it here.
   */
  readonly secretEncoding?: "utf8" | "hex" | "base64";
  /** The prefix of secrets that this rule is for (`whsec_`). It is not part of the key. */
  readonly secretPrefix?: string;
  /** Replaces the signature's prefix. */
  readonly prefix?: string;
}

/** `s` is seconds since 1970, `ms` milliseconds, `iso` a date as in RFC 3339. */
export type TimestampUnit = "s" | "ms" | "iso";

interface TimestampUse {
  /** `s` by default. */
  readonly unit?: TimestampUnit;
  /**
   * How old a delivery may be, where the provider sends a retry with the first one's signature. The route's tolerance by
   * default. A source's own `toleranceMs` takes its place.
   */
  readonly maxAgeMs?: number;
}

/** The time in a header, or at a path of the body's JSON, which the signature must then cover. */
export type TimestampRule = TimestampUse & (HeaderPart | { readonly json: string });

/** The certificate that a delivery names. It is fetched from the provider's own hosts only, and kept. */
export interface CertificateRule {
  /** Where the delivery has the certificate's address: `{json:SigningCertURL}`, `{header:paypal-cert-url}`. */
  readonly url: Template;
  /** The hosts that it may be fetched from, by https. */
  readonly hosts: readonly (string | SenderHost)[];
  /** The path of its address. A `*` stands for letters, digits, `-` and `_`: `/v1/notifications/certs/*`. */
  readonly path: string;
}

/** A host that only some senders have, and that their name says. */
export interface SenderHost {
  /**
   * The form of the name. A word in braces stands for small letters, digits and `-`, and `*` for anything:
   * `arn:aws:sns:{region}:*`.
   */
  readonly sender: string;
  /** The host, with those words: `sns.{region}.amazonaws.com`. */
  readonly host: string;
}

/** A signature of the request: in one or several headers, or in the body. */
export interface SignatureRule extends Partial<HeaderPart> {
  readonly kind: "signature";
  /** Instead of `header`: each may have the signature (a primary and a secondary one). */
  readonly headers?: readonly string[];
  /**
   * Instead of `header`: where the body has the signature, `{json:signature.signature}`. With `{item:…}` each item of a
   * split delivery has its own, and all of them must be right.
   */
  readonly signatureIn?: Template;
  /**
   * The signed content. `{body}` by default. Of alternatives each is tried. Where the signature is in the body, the first
   * that can be filled in is used.
   */
  readonly signed?: Templates;
  /**
   * Says that the provider signs only a part of the body. Ids outside of that part get a hash of the content, because
   * whoever has a copy of a delivery can change the rest.
   */
  readonly signsPart?: true;
  /** `sha256` by default: an HMAC. */
  readonly algorithm?: SignatureAlgorithm;
  /**
   * With `certificate`, instead of `algorithm`: a value of the delivery that says which one it is. Each must be a public
   * key's: `{ value: "{json:SignatureVersion}", is: { "1": "rsa-sha1", "2": "rsa-sha256" } }`.
   */
  readonly algorithmBy?: {
    readonly value: Template;
    readonly is: Readonly<Record<string, PublicKeyAlgorithm>>;
  };
  /** `hex` by default. */
  readonly encoding?: SignatureEncoding;
  readonly secretEncoding?: KeyRule["secretEncoding"];
  /** For providers with several kinds of secrets: the first rule whose prefix fits is used. Replaces `algorithm` and `secretEncoding`. */
  readonly keys?: readonly KeyRule[];
  /** The public key is in a certificate. The source's secrets are then what `sender` or `{secret}` is compared with. */
  readonly certificate?: CertificateRule;
  /**
   * A signed value that must be one of the source's secrets, where one key signs for all customers of a provider:
   * `{json:TopicArn}`.
   */
  readonly sender?: Template;
  /** The time of the signature. Deliveries outside of the tolerance are refused, older and newer alike. */
  readonly timestamp?: TimestampRule;
  /** The query parameter with the body's SHA-256 in hexadecimal, for a signature over only the URL. */
  readonly bodyDigestQuery?: string;
}

/** A secret that is sent with the request, for providers that do not sign. */
export interface TokenRule {
  readonly kind: "token";
  /** `{header:…}` or `{query:…}`. With `split`, `{item:…}`, where the provider sends it nowhere else: each item must have it. */
  readonly token: Templates;
  /** The text before the token: `Bearer `, `Basic `. */
  readonly prefix?: string;
}

/** A JSON web token. Needs the package `jose`. */
export interface JwtRule {
  readonly kind: "jwt";
  /** `{header:authorization}`, or `{json:validationTokens}` where the body has one or a list of them: each must be right. */
  readonly token: Templates;
  /** The text before the token: `Bearer `. */
  readonly prefix?: string;
  /** Where the provider publishes its keys. Without it the source's secrets are the keys: JWK as JSON, or PEM. */
  readonly jwksUrl?: string;
  /** The signature algorithms that are accepted: `["RS256"]`. */
  readonly algorithms: readonly string[];
  /** A claim's name in braces stands for its text: `https://sts.windows.net/{tid}/`. */
  readonly issuer?: string | readonly string[];
  /**
   * A published key may name the issuer that it signs for, and is then used for no other. A word in braces there stands for
   * the claim that this names: `{ tenantid: "tid" }`.
   */
  readonly keyClaims?: Readonly<Record<string, string>>;
  /** Claims with the text that each must have. Of names with `|` between them one must: `{ "appid|azp": "0bf30f3b-…" }`. */
  readonly claims?: Readonly<Record<string, string>>;
  /** With `jwksUrl`: the claims that must be one of the source's secrets, because the keys sign for all customers. `["aud"]` by default. */
  readonly secretClaims?: readonly string[];
  /** With `split`: a value of each item that must be this claim of one of the tokens: `{ tid: "{item:tenantId}" }`. */
  readonly itemClaims?: Readonly<Record<string, Template>>;
  /** With `split`: a value of each item that must be one of the source's secrets: `{item:clientState}`. */
  readonly itemSecret?: Template;
  /** The claim with the body's SHA-256 in hexadecimal. Without it the token does not prove the body. */
  readonly bodyHash?: string;
}

export type VerifyRule = SignatureRule | TokenRule | JwtRule;
