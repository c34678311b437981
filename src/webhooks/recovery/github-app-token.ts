import { createPrivateKey, type KeyObject, sign } from "node:crypto";
import { InvalidOperationError } from "../../errors.js";

/** GitHub accepts 10 minutes, counted by its own clock. */
const lifeSeconds = 540;
/** Before now, for a clock that is ahead of GitHub's. */
const driftSeconds = 60;

/** Returns the token by which a GitHub App proves itself: a JWT that its private key signs. */
export function githubAppToken(appId: number | string, privateKey: string, now: Date): string {
  const seconds = Math.floor(now.getTime() / 1_000);
  const claims = { iat: seconds - driftSeconds, exp: seconds + lifeSeconds, iss: String(appId) };
  const content = `${encoded({ alg: "RS256", typ: "JWT" })}.${encoded(claims)}`;
  return `${content}.${sign("sha256", Buffer.from(content), keyOf(privateKey)).toString("base64url")}`;
}

const encoded = (part: object): string => Buffer.from(JSON.stringify(part)).toString("base64url");

/** An environment variable often has its line ends written as \n. */
function keyOf(text: string): KeyObject {
  try {
    return createPrivateKey(text.replaceAll("\\n", "\n"));
  } catch {
    // not the error itself, which may quote the key
    throw new InvalidOperationError(
      "The private key of the GitHub App is no key in PEM form. Give the whole file that GitHub made.",
    );
  }
}
