import type { WebhookScheme } from "../schemes/scheme.js";
import type { PresetAbout } from "./about.js";
import { msgraph, about as msgraphAbout } from "./msgraph.js";

export { decryptGraphContent, type GraphEncryptedContent } from "../graph-content.js";

/** Notifications with the changed resource in them. Each delivery has a token for each app and tenant that it is for. */
export const msgraphdata = {
  ...msgraph,
  verify: {
    kind: "jwt",
    token: "{json:validationTokens}",
    jwksUrl: "https://login.microsoftonline.com/common/discovery/v2.0/keys",
    algorithms: ["RS256"],
    // of tokens of version 1, and of version 2, which an app may ask for
    issuer: ["https://sts.windows.net/{tid}/", "https://login.microsoftonline.com/{tid}/v2.0"],
    // the app that sends change notifications; any other may have a token for ours
    claims: { "appid|azp": "0bf30f3b-4a52-48df-9a82-234910c4a086" },
    itemClaims: { tid: "{item:tenantId}" },
    itemSecret: "{item:clientState}",
  },
} as const satisfies WebhookScheme;

export const about = {
  ...msgraphAbout,
  name: "Microsoft Graph with resource data",
  secret:
    "Two texts, both needed: the id of your app (the tokens' audience) and the clientState of the subscription.",
  signs:
    "Nothing of the body. The tokens prove who sends, for which app and tenant; clientState is in each notification.",
  checked: {
    title: "Set up change notifications that include resource data (Microsoft Graph)",
    date: "2026-11-17",
    with: "documentation",
    delivery: { page: "Receive change notifications through webhooks (Microsoft Graph)", date: "2026-11-17" },
  },
} as const satisfies PresetAbout;
