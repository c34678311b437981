import { type FetchText, fetchText } from "../webhooks/schemes/fetch-text.js";
import { type DevelopmentKeys, publishedKeys } from "./development-keys.js";
import { selfSignedCertificate } from "./self-signed-certificate.js";

const dayMs = 86_400_000;

/**
 * Stands for the providers that publish a certificate or keys, for requests that `oncebox sign` has signed. All other
 * documents are fetched: a local run may get genuine webhooks through a tunnel.
 */
export const developmentDocuments =
  (keys: DevelopmentKeys, clock: () => Date = () => new Date()): FetchText =>
  async (url, signal) => {
    const { rsa } = keys.privateKeys;
    const isOurs = new URL(url).pathname === "/oncebox.pem";
    if (isOurs && rsa !== undefined) {
      const now = clock().getTime();
      return selfSignedCertificate(rsa, "oncebox development", new Date(now - dayMs), new Date(now + dayMs));
    }
    if (rsa !== undefined && /\/(certs|keys|jwks?(\.json)?)$/.test(new URL(url).pathname))
      return publishedKeys(keys);
    return fetchText(url, signal);
  };
