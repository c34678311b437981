export interface SecretChange {
  /** What is wrong with the secret: "has white space around it". Never the secret itself. */
  readonly what: string;
  readonly secret: string;
}

const prefixes = ["whsec_", "v1,whsec_", "whsk_", "whpk_", "sha256="];

/** The secrets that were perhaps meant. */
export function secretChanges(secret: string): readonly SecretChange[] {
  const all: readonly SecretChange[] = [
    { what: "has white space around it", secret: secret.trim() },
    { what: "has quotes around it", secret: secret.trim().replace(/^(["'])(.*)\1$/s, "$2") },
    ...prefixes.map((prefix) => ({
      what: `starts with ${prefix}, which does not belong to it`,
      secret: secret.startsWith(prefix) ? secret.slice(prefix.length) : secret,
    })),
    { what: "lacks whsec_ at its start", secret: `whsec_${secret}` },
    { what: "lacks the = at its end", secret: `${secret}${"=".repeat((4 - (secret.length % 4)) % 4)}` },
    { what: "has letters in another case than the provider's", secret: secret.toLowerCase() },
    { what: "has letters in another case than the provider's", secret: secret.toUpperCase() },
    { what: "is percent-encoded", secret: percentDecoded(secret) },
  ];
  return all.filter((one) => one.secret !== secret && one.secret !== "");
}

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
